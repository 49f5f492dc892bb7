//! The shell over a simulated disk and connections in memory: no threads, sockets or clocks.

mod between;
mod counts;
mod crash;
mod expiry;
mod failed_log;
mod flood;
mod folded;
mod full;
mod groups;
mod harness;
mod held;
mod history;
mod images;
mod input;
mod order;
mod random;
mod restart;
mod retained;
mod runs;
mod space;
mod time;
mod uncommitted;
mod untouched;
mod wills;
mod window;
mod withheld;
