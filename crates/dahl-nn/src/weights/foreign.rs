//! What other programs write: half precision, which is widened, and files that are no safetensors, which are
//! recognised by their first bytes and refused by name. Pickles are never read: they are programs.

/// IEEE half precision, exactly.
pub(super) fn f16(bytes: [u8; 2]) -> f32 {
    let bits = u16::from_le_bytes(bytes);
    let (exponent, fraction) = (bits >> 10 & 31, f32::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * f32::exp2(-24.0),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        e => (1024.0 + fraction) * f32::exp2(f32::from(e) - 25.0),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The upper half of a single-precision number.
pub(super) fn bf16([low, high]: [u8; 2]) -> f32 {
    f32::from_le_bytes([0, 0, low, high])
}

/// What a file is that is not safetensors, and what to do about it, as far as its first bytes say.
pub(super) fn recognised(file: &str, bytes: &[u8]) -> Option<String> {
    let has = |text: &str| {
        let head = &bytes[..bytes.len().min(4096)];
        head.windows(text.len()).any(|w| w == text.as_bytes())
    };
    let zip = bytes.starts_with(b"PK\x03\x04");
    // An archive that holds a pickle, or as older versions had it, a pickle.
    let torch = (zip && has("data.pkl")) || bytes.starts_with(&[0x80, 2]);
    if torch {
        let to = std::path::Path::new(file).with_extension("safetensors");
        return Some(format!(
            "it is a pickle that torch.save wrote, which only Python can read; convert it there: \
             import torch, safetensors.torch; safetensors.torch.save_file(torch.load({file:?}, weights_only=True), {:?})",
            to.display().to_string()
        ));
    }
    let what = match bytes {
        _ if zip && has(".npy") => "an archive of NumPy arrays (.npz)",
        _ if zip => "a zip archive",
        [0x89, b'H', b'D', b'F', ..] => "an HDF5 file, as Keras writes them",
        [b'G', b'G', b'U', b'F', ..] => "a GGUF file",
        [0x1f, 0x8b, ..] => "a gzip file; unpack it first",
        _ => return None,
    };
    Some(format!(
        "it is {what}; save the weights as safetensors with PyTorch's keys"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_widened_exactly() {
        for (bits, value) in [
            (0x3c00u16, 1.0f32),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103_515_6e-5),
            (0x0001, 5.960_464_5e-8),
            (0x3555, 0.333_251_95),
            (0x8000, -0.0),
            (0x7c00, f32::INFINITY),
        ] {
            let got = f16(bits.to_le_bytes());
            assert_eq!(got.to_bits(), value.to_bits(), "{bits:x}: {got}");
        }
        assert!(f16(0x7e00u16.to_le_bytes()).is_nan());
        assert_eq!(bf16(0x3f80u16.to_le_bytes()), 1.0);
        assert_eq!(bf16(0xc049u16.to_le_bytes()), -3.140_625);
        assert!(bf16(0x7fc0u16.to_le_bytes()).is_nan());
    }

    #[test]
    fn other_files_are_recognised() {
        let torch =
            b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0model/data.pkl";
        let said = recognised("a/net.pt", torch).unwrap();
        assert!(
            said.contains("torch.save") && said.contains("a/net.safetensors"),
            "{said}"
        );
        let old = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M";
        assert!(recognised("x.pth", old).unwrap().contains("torch.save"));
        assert!(
            recognised("x", b"PK\x03\x04____a.npy")
                .unwrap()
                .contains("NumPy")
        );
        assert!(recognised("x", b"\x89HDF\r\n").unwrap().contains("Keras"));
        assert_eq!(recognised("x", b"root:x:0:0"), None);
        assert_eq!(recognised("x", b""), None);
    }
}
