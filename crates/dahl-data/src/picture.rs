//! One picture: decoded, brought to a size, laid out channel by channel.
//!
//! JPEG and PNG, told apart by their content, not by their name. Orientation tags and colour profiles
//! are not applied, transparency is dropped. Decoding has bounds on size and memory: a picture that
//! claims to be enormous is an error, and so is one that claims more than its bytes can hold. Only regular files
//! are read.

use std::cell::RefCell;
use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::error::DataError;
use super::resize::resize;
use super::sample_size;
use dahl_core::file::open_regular;
use dahl_core::panic_message;

/// The longest side of a picture.
const MAX_SIDE: u32 = 1 << 15;
/// The most bytes of its pixels, as the file has them.
const MAX_PIXELS: u64 = 1 << 30;
/// As many are always believed: 44 million coloured ones. Decoding takes up to four times as much.
const BELIEVED: u64 = 128 << 20;
/// Beyond, so many for a byte of the file: deflate does no better, and a photograph is far from it.
const MAX_RATIO: u64 = 1032;

/// The largest file that is read as one picture.
const MAX_FILE: u64 = 1 << 30;

thread_local! {
    /// A picture's file, as read; kept so that its memory is used again.
    static FILE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A picture of any size as bytes of this shape (1 or 3 channels, height, width): what a model takes.
pub fn read_picture(path: &Path, shape: [usize; 3]) -> Result<Vec<u8>, DataError> {
    let wrong = |reason| DataError::Usage(format!("{}: {reason}", path.display()));
    if !matches!(shape[0], 1 | 3) {
        let channels = shape[0];
        return Err(wrong(format!(
            "a picture is grey or RGB, the model takes {channels} channels"
        )));
    }
    let mut pixels = vec![0; sample_size(shape)?];
    read_file(path, shape, &mut pixels).map_err(wrong)?;
    Ok(pixels)
}

/// Reads and decodes a file into `pixels`, which has `shape`'s size.
pub(crate) fn read_file(path: &Path, shape: [usize; 3], pixels: &mut [u8]) -> Result<(), String> {
    FILE.with_borrow_mut(|bytes| {
        bytes.clear();
        let (file, length) = open_regular(path).map_err(|e| format!("cannot open it: {e}"))?;
        if length > MAX_FILE {
            return Err(format!(
                "it has {length} bytes, a picture at most {MAX_FILE}"
            ));
        }
        let read = file.take(length).read_to_end(bytes);
        read.map_err(|e| format!("cannot read it: {e}"))?;
        decode(bytes, shape, pixels)
    })
}

/// Decodes a picture of any size into `pixels`, which has `shape`'s size; 1 or 3 channels.
pub(crate) fn decode(bytes: &[u8], shape: [usize; 3], pixels: &mut [u8]) -> Result<(), String> {
    // Decoders are large and meet bytes from anywhere: should one panic, that is this file's error.
    catch_unwind(AssertUnwindSafe(|| decode_unguarded(bytes, shape, pixels)))
        .unwrap_or_else(|panic| Err(format!("the decoder panicked: {}", panic_message(&*panic))))
}

fn decode_unguarded(bytes: &[u8], shape: [usize; 3], pixels: &mut [u8]) -> Result<(), String> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|e| format!("cannot be read: {e}"))?;
    if !matches!(reader.format(), Some(ImageFormat::Jpeg | ImageFormat::Png)) {
        return Err("neither JPEG nor PNG".to_owned());
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_PIXELS);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|e| e.to_string())?;
    let (claimed, length) = (decoder.total_bytes(), bytes.len() as u64);
    if claimed > length.saturating_mul(MAX_RATIO).clamp(BELIEVED, MAX_PIXELS) {
        let (width, height) = decoder.dimensions();
        return Err(format!(
            "it claims {width}×{height} pixels, too many for a file of {length} bytes"
        ));
    }
    let picture = DynamicImage::from_decoder(decoder).map_err(|e| e.to_string())?;
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    if width == 0 || height == 0 {
        return Err("the picture has no pixels".to_owned());
    }
    let [channels, h, w] = shape;
    if channels == 1 {
        let grey = match picture {
            DynamicImage::ImageLuma8(grey) => grey,
            other => other.to_luma8(),
        };
        resize::<1>(&grey, [height, width], [h, w], pixels);
    } else {
        let colour = match picture {
            DynamicImage::ImageRgb8(colour) => colour,
            other => other.to_rgb8(),
        };
        resize::<3>(&colour, [height, width], [h, w], pixels);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{Rgb, RgbImage};
    use proptest::prelude::*;

    fn encode(picture: &RgbImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture
            .write_to(&mut Cursor::new(&mut bytes), format)
            .unwrap();
        bytes
    }

    fn flag() -> RgbImage {
        RgbImage::from_fn(40, 20, |x, _| {
            if x < 20 {
                Rgb([250, 10, 20])
            } else {
                Rgb([10, 20, 240])
            }
        })
    }

    #[test]
    fn png_and_jpeg_become_planes() {
        for (format, slack) in [(ImageFormat::Png, 0), (ImageFormat::Jpeg, 12)] {
            let bytes = encode(&flag(), format);
            let mut pixels = [0; 3 * 2 * 4];
            decode(&bytes, [3, 2, 4], &mut pixels).unwrap();
            // Red plane first; the outer columns are far from the border between the colours.
            for (at, wanted) in [(0, 250), (3, 10), (8, 10), (11, 20), (16, 20), (19, 240)] {
                let got: u8 = pixels[at];
                assert!(
                    got.abs_diff(wanted) <= slack,
                    "{format:?} {at}: {got}, not {wanted}"
                );
            }
            let mut grey = [0; 8];
            decode(&bytes, [1, 2, 4], &mut grey).unwrap();
            assert!(grey[0] > grey[3], "{grey:?}");
        }
    }

    #[test]
    fn damaged_pictures_are_errors() {
        let mut pixels = [0; 24];
        let mut try_ = |bytes: &[u8]| decode(bytes, [3, 2, 4], &mut pixels);
        assert!(try_(b"").is_err());
        assert_eq!(
            try_(b"GIF89a and more").unwrap_err(),
            "neither JPEG nor PNG"
        );
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let whole = encode(&flag(), format);
            assert!(try_(&whole).is_ok());
            assert!(try_(&whole[..whole.len() / 4]).is_err());
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 0x55;
                let _ = try_(&bytes);
                let _ = try_(&whole[..at]);
            }
        }
    }

    #[test]
    fn a_picture_that_claims_to_be_enormous_is_refused() {
        let mut bytes = encode(&flag(), ImageFormat::Png);
        bytes[16..20].copy_from_slice(&0x7fff_ffffu32.to_be_bytes());
        assert!(decode(&bytes, [3, 2, 4], &mut [0; 24]).is_err());
        // A size that is possible, but not in so few bytes. JPEG's: height and width behind the mark of the frame.
        let mut bytes = encode(&flag(), ImageFormat::Jpeg);
        let frame = bytes.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
        bytes[frame + 5..frame + 9].copy_from_slice(&[0x40, 0, 0x40, 0]);
        let error = decode(&bytes, [3, 2, 4], &mut [0; 24]).unwrap_err();
        assert!(
            error.contains("claims 16384×16384 pixels, too many"),
            "{error}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = std::env::temp_dir();
        let pipe = folder.join(format!("dahl-picture-{}.fifo", std::process::id()));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        // Nobody writes to the pipe: opening it would wait for ever. The device has no end.
        for path in [&pipe, Path::new("/dev/zero"), &folder] {
            let error = read_picture(path, [3, 2, 4]).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        std::fs::remove_file(pipe).unwrap();
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(start in 0usize..3, bytes: Vec<u8>) {
            let start: &[u8] = [b"\x89PNG\r\n\x1a\n", &b"\xff\xd8\xff"[..], b""][start];
            let _ = decode(&[start, &bytes].concat(), [1, 3, 3], &mut [0; 9]);
        }
    }
}
