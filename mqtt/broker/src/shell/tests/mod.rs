//! The shell over a simulated disk and connections in memory: no threads, sockets or clocks.

mod counts;
mod crash;
mod expiry;
mod flood;
mod harness;
mod held;
mod order;
mod random;
mod restart;
mod time;
mod wills;
mod window;
mod withheld;
