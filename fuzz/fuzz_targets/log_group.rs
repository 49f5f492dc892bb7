//! Any bytes as a group, with checksums made right if the first byte is odd: what is intact holds
//! records that end, within the group, and can be cut out one by one.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_fuzz::mend_group;
use zzq_wal::format::group::{GroupHeader, HEADER_LEN, LEN_MAX};
use zzq_wal::format::{index, record};

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096), 0);
    if mode & 1 != 0 && !bytes.is_empty() {
        mend_group(&mut bytes, None);
    }
    let _ = index::decode(&bytes, usize::from(mode));
    let Some(header) = GroupHeader::decode(&bytes) else { return };
    assert!(header.length <= LEN_MAX && header.records_len + HEADER_LEN <= header.length);
    assert!(header.durable < header.first_lsn && header.last_lsn().next() >= header.first_lsn);
    if !header.body_is_intact(&bytes) {
        return;
    }
    let records = header.records(&bytes);
    let mut rest = records;
    let mut taken = 0;
    while let Ok((record, behind)) = record::split(rest) {
        taken += record::HEADER_LEN + record.body.len();
        assert!(record.body.len() <= record::PART_MAX);
        rest = behind;
    }
    assert_eq!(taken + rest.len(), records.len());
    // A bit that changes anywhere is noticed.
    let at = usize::from(mode) * 16 % header.length;
    bytes[at] ^= 1;
    let still = GroupHeader::decode(&bytes);
    assert!(!still.is_some_and(|again| again == header && again.body_is_intact(&bytes)));
});
