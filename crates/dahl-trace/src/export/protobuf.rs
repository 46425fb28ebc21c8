//! The wire format of protocol buffers, as far as writing needs it: variable-length integers, eight
//! bytes, and fields with a length (texts and messages inside messages).

/// A message being written.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Forgets what was written, and keeps the room.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether nothing was written.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// An integer, enumeration or boolean.
    pub(super) fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A `fixed64`.
    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.bytes.extend(value.to_le_bytes());
    }

    /// A `double`.
    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A text, or another message's bytes.
    pub(super) fn bytes_field(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A text.
    pub(super) fn text(&mut self, field: u32, value: &str) {
        self.bytes_field(field, value.as_bytes());
    }

    /// A message inside.
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes_field(field, &inner.bytes);
    }
}
