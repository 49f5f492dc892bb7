//! Version 1 as bytes: what is written today is what was written then, and is read back.

use super::group::GroupHeader;
use super::index::{self, Entry};
use super::meta::{self, Facts};
use super::record::{self, Flags, HEADER_LEN, Record};
use super::segment::{self, SegmentHeader};
use super::{checksum, group};
use crate::disk::BLOCK;
use crate::lsn::Lsn;

const SEGMENT: &[u8] = include_bytes!("../../tests/golden/segment-v1.bin");
const CLOSING: &[u8] = include_bytes!("../../tests/golden/closing-v1.bin");
const INDEX: &[u8] = include_bytes!("../../tests/golden/index-v1.bin");
const GROUP: &[u8] = include_bytes!("../../tests/golden/group-v1.bin");
const META: &[u8] = include_bytes!("../../tests/golden/meta-v1.bin");
const META_TRIMMED: &[u8] = include_bytes!("../../tests/golden/meta-trimmed-v1.bin");

/// Golden files end where only zeroes would follow.
fn block(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

#[test]
fn a_segment_begins_as_in_version_1() {
    let mut bytes = [0; BLOCK];
    segment::tests::sample().encode(&mut bytes);
    assert_eq!(bytes, block(SEGMENT));
    assert_eq!(SegmentHeader::decode(&block(SEGMENT)), Ok(segment::tests::sample()));
}

#[test]
fn a_segment_closes_as_in_version_1() {
    let (header, closing) = (segment::tests::sample(), segment::tests::sample_closing());
    let mut bytes = [0; BLOCK];
    header.encode_closing(&closing, &mut bytes);
    assert_eq!(bytes, block(CLOSING));
    assert_eq!(header.decode_closing(&block(CLOSING)), Some(closing));
}

#[test]
fn an_index_is_as_in_version_1() {
    let entries = [
        Entry { first_lsn: Lsn::new(42), time_ms: 1_700_000_000_100, block: 1, records: 0 },
        Entry { first_lsn: Lsn::new(42), time_ms: 1_700_000_000_200, block: 3, records: 19 },
    ];
    let mut bytes = [0; BLOCK];
    index::encode(&entries, &mut bytes);
    assert_eq!(bytes, block(INDEX));
    for (position, entry) in entries.iter().enumerate() {
        assert_eq!(index::decode(&block(INDEX), position), Some(*entry));
    }
}

#[test]
fn a_group_with_its_records_is_as_in_version_1() {
    let records = [
        (1, Flags::WAITS, 0, &b"waits"[..]),
        (2, Flags::default(), 0, b""),
        (3, Flags::CONTINUES, 5, b"the end of a big one"),
        (3, Flags::MORE, 5, b"the beginning of the next"),
    ];
    let mut bytes = vec![0; group::HEADER_LEN];
    for (kind, flags, stream, body) in records {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; HEADER_LEN]);
        bytes.extend_from_slice(body);
        record::put_header(&mut bytes[start..], kind, flags, stream);
    }
    record::seal(&mut bytes[group::HEADER_LEN..]);
    let records_len = bytes.len() - group::HEADER_LEN;
    bytes.resize(BLOCK, 0);
    let mut header = GroupHeader { records: 3, ..group::tests::sample() };
    header.seal_all(&mut bytes, records_len);
    assert_eq!(bytes, block(GROUP));

    let golden = block(GROUP);
    let read = GroupHeader::decode(&golden).unwrap();
    assert_eq!(read, header);
    assert!(read.body_is_intact(&golden));
    let mut rest = read.records(&golden);
    for (kind, flags, stream, body) in records {
        let (record, behind) = record::split(rest).unwrap();
        assert_eq!(record, Record { kind, flags, stream, body });
        rest = behind;
    }
    assert!(rest.is_empty());
}

#[test]
fn meta_is_as_in_version_1() {
    for (facts, golden) in
        [(meta::tests::sample(), META), (meta::tests::trimmed_sample(), META_TRIMMED)]
    {
        let mut bytes = [0; BLOCK];
        facts.encode(&mut bytes);
        assert_eq!(bytes, block(golden));
        assert_eq!(Facts::decode(&block(golden)), Ok(facts));
    }
}

#[test]
fn the_checksum_is_crc_32() {
    assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
}
