//! The four messages of SCRAM, as text.

use super::keys::{from_text, to_text};

/// `n,,n=user,r=nonce`
pub(super) struct ClientFirst<'a> {
    /// `n,,`: whether it wants channel binding.
    pub(super) header: &'a str,
    /// All behind that.
    pub(super) bare: &'a str,
    pub(super) user: String,
    pub(super) nonce: &'a str,
}

/// `c=header,r=nonce,p=proof`
pub(super) struct ClientFinal<'a> {
    pub(super) without_proof: &'a str,
    pub(super) header: Vec<u8>,
    pub(super) nonce: &'a str,
    pub(super) proof: Vec<u8>,
}

impl<'a> ClientFirst<'a> {
    /// Not with channel binding, nor for somebody else, nor with extensions that are not known.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (binding, rest) = text.split_once(',')?;
        let (authorised, bare) = rest.split_once(',')?;
        if !matches!(binding, "n" | "y") || !authorised.is_empty() {
            return None;
        }
        let mut parts = bare.split(',');
        let user = unescape(parts.next()?.strip_prefix("n=")?)?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        let good = |byte: u8| byte.is_ascii_graphic();
        let header = &text[..text.len() - bare.len()];
        let is_good = !nonce.is_empty() && nonce.bytes().all(good);
        is_good.then_some(Self { header, bare, user, nonce })
    }
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let header = from_text(parts.next()?.strip_prefix("c=")?)?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        Some(Self { without_proof, header, nonce, proof: from_text(proof)? })
    }
}

/// `r=nonce,s=salt,i=iterations`
pub(super) fn server_first(nonce: &str, salt: &[u8], iterations: u32) -> String {
    format!("r={nonce},s={},i={iterations}", to_text(salt))
}

/// `v=signature`
pub(super) fn server_final(signature: &[u8]) -> String {
    format!("v={}", to_text(signature))
}

/// A comma is written `=2C`, an equals sign `=3D`.
fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix("2C") {
            plain.push(',');
            plain.push_str(rest);
        } else {
            plain.push('=');
            plain.push_str(part.strip_prefix("3D")?);
        }
    }
    (!plain.is_empty()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_commas_are_written_without() {
        let user = |text: &str| ClientFirst::parse(text.as_bytes()).map(|first| first.user);
        assert_eq!(user("n,,n=a=2Cb=3D=3D,r=x"), Some("a,b==".into()));
        for bad in ["n,,n=a=b,r=x", "n,,n=,r=x", "n,,r=x", "n,a=other,n=a,r=x", "z,,n=a,r=x"] {
            assert_eq!(user(bad), None, "{bad}");
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_none() {
        proptest::proptest!(|(noise: Vec<u8>, text in "[cnpry]?,{0,2}[nrcp=,A-C2D3]{0,20}")| {
            for bytes in [&noise[..], text.as_bytes()] {
                let first = ClientFirst::parse(bytes).map(|first| first.user);
                let last = ClientFinal::parse(bytes).map(|last| last.proof);
                assert!(first.is_none_or(|user| !user.is_empty()) && last.is_none_or(|_| true));
            }
        });
    }

    #[test]
    fn extensions_may_stand_behind() {
        let last = ClientFinal::parse(b"c=biws,r=xyz,e=1,p=AAAA").unwrap();
        assert_eq!((last.header.as_slice(), last.nonce), (&b"n,,"[..], "xyz"));
        assert_eq!(last.without_proof, "c=biws,r=xyz,e=1");
        assert!(ClientFinal::parse(b"c=biws,r=xyz").is_none());
    }
}
