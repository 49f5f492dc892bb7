//! The lexer: comments, strings, characters, and all else.

/// What a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Code,
    Comment,
    /// A literal: its quotes are code, its inside belongs to no view.
    Literal,
}

/// Splits `text` into its code and its comments; both keep every newline and every position.
pub(super) fn split(text: &str) -> (String, String) {
    let bytes = text.as_bytes();
    let (mut code, mut comments) = (vec![b' '; bytes.len()], vec![b' '; bytes.len()]);
    let mut at = 0;
    while at < bytes.len() {
        let (kind, end) = stretch(bytes, at);
        assert!(end > at && end <= bytes.len(), "the lexer goes forward within the text");
        match kind {
            Kind::Code => code[at..end].copy_from_slice(&bytes[at..end]),
            Kind::Comment => comments[at..end].copy_from_slice(&bytes[at..end]),
            Kind::Literal => {
                code[at] = b'"';
                code[end - 1] = b'"';
            }
        }
        at = end;
    }
    for (at, &byte) in bytes.iter().enumerate() {
        if byte == b'\n' {
            (code[at], comments[at]) = (b'\n', b'\n');
        }
    }
    (text_of(code), text_of(comments))
}

/// Stretches end at ASCII bytes, so each view consists of whole characters and blanks.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// The stretch that begins at `at`: its kind and its end.
fn stretch(bytes: &[u8], at: usize) -> (Kind, usize) {
    let rest = &bytes[at..];
    if rest.starts_with(b"//") {
        let len = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        return (Kind::Comment, at + len);
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, at + block_comment(rest));
    }
    if let Some(len) = literal(rest) {
        return (Kind::Literal, at + len);
    }
    // An identifier is taken whole, so that its last letter is no prefix of a string.
    let word = rest.iter().take_while(|&&byte| super::is_identifier(byte)).count();
    (Kind::Code, at + word.max(1))
}

/// The length of a comment that may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of the string or character that `rest` begins with, prefix included.
fn literal(rest: &[u8]) -> Option<usize> {
    let prefix = rest.iter().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    if prefix > 2 {
        return None;
    }
    let raw = rest[..prefix].contains(&b'r');
    let body = &rest[prefix..];
    let hashes = body.iter().take_while(|&&byte| byte == b'#').count();
    match body.get(hashes) {
        Some(b'"') if raw => Some(prefix + raw_string(body, hashes)),
        Some(b'"') if hashes == 0 => Some(prefix + quoted(body, b'"')),
        Some(b'\'') if hashes == 0 && prefix <= 1 && !raw => {
            character(body).map(|len| len + prefix)
        }
        _ => None,
    }
}

/// The length of `#"…"#` with as many hashes as asked.
fn raw_string(body: &[u8], hashes: usize) -> usize {
    let mut close = vec![b'"'];
    close.resize(hashes + 1, b'#');
    let inside = &body[hashes + 1..];
    let end = inside.windows(close.len()).position(|window| window == close);
    end.map_or(body.len(), |end| hashes + 1 + end + close.len())
}

/// The length of a literal with escapes, both quotes included.
fn quoted(body: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < body.len() {
        match body[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    body.len()
}

/// The length of a character, or `None` where the quote opens a lifetime.
fn character(body: &[u8]) -> Option<usize> {
    let first = *body.get(1)?;
    if first == b'\\' {
        return Some(quoted(body, b'\''));
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xE0 => 2,
        0xE0..0xF0 => 3,
        _ => 4,
    };
    (body.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        split(text).0.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn comments(text: &str) -> String {
        split(text).1.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_leave_the_code() {
        let text = "a // b\n/* c /* d */ e */ f /// g\n//! h";
        assert_eq!(code(text), "a f");
        assert_eq!(comments(text), "// b /* c /* d */ e */ /// g //! h");
    }

    #[test]
    fn strings_are_blanked_whatever_their_form() {
        for text in [
            r#"x("a // unsafe \" b") y"#,
            r##"x(r#"a " unsafe"#) y"##,
            r#"x(b"unsafe") y"#,
            r##"x(br#"unsafe"#) y"##,
            r#"x(c"unsafe") y"#,
        ] {
            let code = code(text);
            assert!(code.starts_with("x(") && code.ends_with(") y"), "{text}: {code}");
            assert!(!code.contains("unsafe"), "{text}: {code}");
        }
    }

    #[test]
    fn characters_differ_from_lifetimes() {
        assert_eq!(
            code("f::<'a>('\"', '/', '\\'', b'x', 'é') // z"),
            "f::<'a>(\" \", \" \", \" \", \" \", \" \")"
        );
        assert_eq!(code("impl<'a, 'b> X<'a> {}"), "impl<'a, 'b> X<'a> {}");
    }

    #[test]
    fn an_identifier_that_ends_like_a_prefix_opens_no_raw_string() {
        assert_eq!(comments("for r in bar { x } // c"), "// c");
        assert_eq!(code("attr#\"x\""), "attr#\" \"");
    }

    #[test]
    fn every_position_is_kept() {
        let text = "é // ü\n\"ä\" b /* ö */ c";
        let (code, comments) = split(text);
        assert_eq!((code.len(), comments.len()), (text.len(), text.len()));
        assert_eq!(code.find('c'), text.rfind('c'));
        assert_eq!(code.matches('\n').count(), 1);
    }

    #[test]
    fn unfinished_text_ends_without_panic() {
        for text in ["\"", "'", "r#\"", "/*", "'\\", "b'", "\"\\", "/* /* */", "r#", "b"] {
            let (code, _) = split(text);
            assert_eq!(code.len(), text.len());
        }
    }
}
