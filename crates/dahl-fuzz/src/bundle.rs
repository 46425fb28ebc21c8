//! Several files in one input, so that a mutation of one leaves the others whole.
//!
//! A part begins with a line `=== NAME` and goes to the next such line. What does not begin with one is no bundle. Names
//! are only ever compared with known ones: an input cannot choose where it is written.

/// What a part begins with.
const MARK: &[u8] = b"=== ";

/// The parts of a bundle by their names; none if it is no bundle.
pub(crate) fn parts(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut rest = bytes.strip_prefix(MARK)?;
    let mut parts = Vec::new();
    loop {
        let next = rest.windows(MARK.len() + 1);
        let next = next
            .into_iter()
            .position(|w| w[0] == b'\n' && &w[1..] == MARK);
        let part = &rest[..next.unwrap_or(rest.len())];
        let line = part.iter().position(|&b| b == b'\n');
        let line = line.unwrap_or(part.len());
        parts.push((&part[..line], &part[(line + 1).min(part.len())..]));
        match next {
            Some(at) => rest = &rest[at + 1 + MARK.len()..],
            None => return Some(parts),
        }
    }
}

/// The first part of a name; empty if there is none.
pub(crate) fn part<'b>(parts: &[(&[u8], &'b [u8])], name: &str) -> &'b [u8] {
    let found = parts.iter().find(|(n, _)| *n == name.as_bytes());
    found.map_or(&[], |(_, bytes)| bytes)
}

/// A bundle of these parts.
pub(crate) fn join(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, (name, content)) in parts.iter().enumerate() {
        if i > 0 {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(MARK);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let all: [(&str, &[u8]); 4] = [("a", b"1\n2"), ("b", b""), ("c", b"\n"), ("a", b"x=== y")];
        let bytes = join(&all);
        let back = parts(&bytes).unwrap();
        assert_eq!(back.len(), 4);
        for ((name, content), (n, c)) in all.iter().zip(&back) {
            assert_eq!((name.as_bytes(), *content), (*n, *c));
        }
        assert_eq!(part(&back, "a"), b"1\n2");
        assert_eq!(part(&back, "z"), b"");
    }

    #[test]
    fn any_bytes_are_a_bundle_or_none() {
        assert!(parts(b"").is_none() && parts(b"x=== a\n").is_none());
        assert_eq!(parts(b"=== "), Some(vec![(&b""[..], &b""[..])]));
        assert_eq!(parts(b"=== a"), Some(vec![(&b"a"[..], &b""[..])]));
        let two = parts(b"=== a\n=== b\nx").unwrap();
        assert_eq!(two, [(&b"a"[..], &b""[..]), (b"b", b"x")]);
    }
}
