//! The cluster: a reader of the log on other nodes.
//!
//! Owns: links between nodes, terms, the committed mark of a cluster.
//! Does not know: the bodies of records.
//!
//! Filled by the cluster issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
