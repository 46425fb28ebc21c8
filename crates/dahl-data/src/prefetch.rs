//! Batches made ahead of time by threads of their own.
//!
//! Batches have numbers, counted from where the run starts. A thread takes the next number together
//! with a buffer, makes the batch and puts it in the window, a ring of `ahead` places; the consumer
//! takes numbers from the window in order. A number is handed out only when it fits the window, so no
//! more than `ahead` batches are made or waiting; since numbers are handed out in order, the one the
//! consumer waits for is always among those in work, hence nobody waits for ever. Buffers come back
//! when a [`Prepared`] batch is dropped: once a few have been made, no more are allocated.
//!
//! The order and content of batches do not depend on the number of threads. Waiting threads sleep.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dahl_core::{Element, panic_message};

use super::batches::Batches;
use super::error::DataError;

/// More threads or batches than this are asked for by mistake only.
const MAX_THREADS: usize = 256;
const MAX_AHEAD: usize = 1024;

/// Where to start and stop, and how far to run ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// The epoch to start in.
    pub epoch: u64,
    /// The batch of that epoch to start at; past its end means the epochs after.
    pub batch: usize,
    /// The epoch to stop before; `None` goes on for ever.
    pub until: Option<u64>,
    /// Threads that make batches, 1 to 256: one is enough for files in memory, more help to decode
    /// pictures.
    pub threads: usize,
    /// Batches made ahead, at least one per thread and at most 1024.
    pub ahead: usize,
}

impl Default for Prefetch {
    fn default() -> Self {
        Prefetch {
            epoch: 0,
            batch: 0,
            until: None,
            threads: 1,
            ahead: 4,
        }
    }
}

/// Which samples of a batch are needed: a range of so many; of smaller batches the same part, rounded up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The samples.
    pub samples: Range<usize>,
    /// Of so many; of none, all are needed.
    pub of: usize,
}

impl Part {
    /// The samples of a batch of so many.
    fn of(&self, batch: usize) -> Range<usize> {
        match self.of {
            0 => 0..batch,
            of => {
                let end = (self.samples.end * batch).div_ceil(of).min(batch);
                (self.samples.start * batch / of).min(end)..end
            }
        }
    }
}

struct Buffer<T> {
    samples: usize,
    /// Which samples have been made.
    made: Range<usize>,
    inputs: Vec<T>,
    targets: Vec<T>,
}

impl<T> Buffer<T> {
    fn new() -> Buffer<T> {
        Buffer {
            samples: 0,
            made: 0..0,
            inputs: Vec::new(),
            targets: Vec::new(),
        }
    }
}

struct State<T> {
    /// The next number to hand to a thread.
    next: u64,
    /// The number the consumer takes next.
    wanted: u64,
    /// One past the last number.
    end: u64,
    /// Finished batches, number `n` at place `n % ahead`.
    window: Vec<Option<Result<Buffer<T>, DataError>>>,
    free: Vec<Buffer<T>>,
    /// What of each batch is made ahead.
    part: Part,
    stop: bool,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// A thread may find a number to work on.
    room: Condvar,
    /// The batch that the consumer wants is there.
    ready: Condvar,
}

impl<T> Shared<T> {
    /// A thread that panicked left the state whole: every change below is one that cannot panic.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A source of batches made in the background, taken as from any iterator: the next one, waiting for
/// it if it is not ready, or nothing after the last or after an error. Dropping it ends its threads.
pub struct Prefetcher<T: Element> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    course: Course,
    /// For samples that turn out to be needed.
    batches: Batches<T>,
    waited: Duration,
}

/// From a number to an epoch and a batch of it.
#[derive(Clone, Copy)]
struct Course {
    epoch: u64,
    batch: usize,
    per_epoch: usize,
}

impl Course {
    fn place(&self, number: u64) -> (u64, usize) {
        let per_epoch = self.per_epoch as u64;
        let at = (self.batch as u64).saturating_add(number);
        (
            self.epoch.saturating_add(at / per_epoch),
            (at % per_epoch) as usize,
        )
    }
}

impl<T: Element> Prefetcher<T> {
    /// Makes only this part of each batch from now on; samples that are needed nevertheless are made when they are
    /// asked for ([`Prefetcher::complete`]).
    pub fn want(&self, part: Part) {
        self.shared.lock().part = part;
    }

    /// Makes what a batch lacks of some samples.
    pub fn complete(
        &mut self,
        batch: &mut Prepared<T>,
        samples: Range<usize>,
    ) -> Result<(), DataError> {
        let (epoch, number) = (batch.epoch, batch.batch);
        let buffer = &mut batch.buffer;
        let made = buffer.made.clone();
        if samples.start >= made.start && samples.end <= made.end {
            return Ok(());
        }
        // From the first to the last: what lies between two parts is made, too.
        let all = match made.is_empty() {
            true => samples,
            false => samples.start.min(made.start)..samples.end.max(made.end),
        };
        let (inputs, targets) = (&mut buffer.inputs, &mut buffer.targets);
        self.batches
            .fill_part(epoch, number, all.clone(), inputs, targets)?;
        buffer.made = all;
        Ok(())
    }

    /// Starts making batches; [`Prefetcher::start_part`] makes a part of each.
    pub fn start(batches: &Batches<T>, options: Prefetch) -> Result<Prefetcher<T>, DataError> {
        Self::start_part(batches, options, Part::default())
    }

    /// Starts making a part of every batch.
    pub fn start_part(
        batches: &Batches<T>,
        options: Prefetch,
        part: Part,
    ) -> Result<Prefetcher<T>, DataError> {
        let per_epoch = batches.per_epoch();
        if per_epoch == 0 {
            return Err(DataError::Empty {
                what: batches.source().name().to_owned(),
                hint: "",
            });
        }
        let threads = options.threads.clamp(1, MAX_THREADS);
        let ahead = options.ahead.clamp(threads, MAX_AHEAD);
        let course = Course {
            epoch: options
                .epoch
                .saturating_add((options.batch / per_epoch) as u64),
            batch: options.batch % per_epoch,
            per_epoch,
        };
        let end = options.until.map_or(u64::MAX, |until| {
            let epochs = until.saturating_sub(course.epoch);
            epochs
                .saturating_mul(per_epoch as u64)
                .saturating_sub(course.batch as u64)
        });
        let state = State {
            next: 0,
            wanted: 0,
            end,
            window: (0..ahead).map(|_| None).collect(),
            free: Vec::with_capacity(ahead + 1),
            part,
            stop: false,
        };
        let (room, ready) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            room,
            ready,
        });
        let mut this = Prefetcher {
            shared,
            threads: Vec::new(),
            course,
            batches: batches.clone(),
            waited: Duration::ZERO,
        };
        for i in 0..threads {
            let (shared, batches) = (Arc::clone(&this.shared), batches.clone());
            let thread = std::thread::Builder::new()
                .name(format!("dahl-data-{i}"))
                .spawn(move || work(&shared, batches, course))
                .map_err(|e| DataError::Usage(format!("cannot start a data thread: {e}")))?;
            this.threads.push(thread);
        }
        Ok(this)
    }

    /// How long the consumer has waited for batches that were not ready.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

impl<T: Element> Iterator for Prefetcher<T> {
    type Item = Result<Prepared<T>, DataError>;

    /// The next batch, waiting for it if it is not ready; `None` after the last or after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let mut state = self.shared.lock();
        let number = state.wanted;
        if state.stop || number >= state.end {
            return None;
        }
        let place = (number % state.window.len() as u64) as usize;
        let found = loop {
            if let Some(found) = state.window[place].take() {
                break found;
            }
            let since = Instant::now();
            state = self
                .shared
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            self.waited += since.elapsed();
        };
        state.wanted += 1;
        state.stop = found.is_err();
        if state.stop {
            self.shared.room.notify_all();
        } else {
            self.shared.room.notify_one();
        }
        drop(state);
        let (epoch, batch) = self.course.place(number);
        Some(found.map(|buffer| Prepared {
            epoch,
            batch,
            buffer,
            home: Arc::clone(&self.shared),
        }))
    }
}

impl<T: Element> Drop for Prefetcher<T> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.room.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was caught and reported where it happened; there is no other.
            let _ = thread.join();
        }
    }
}

fn work<T: Element>(shared: &Shared<T>, mut batches: Batches<T>, course: Course) {
    loop {
        let mut state = shared.lock();
        let number = loop {
            if state.stop || state.next >= state.end {
                return;
            }
            if state.next < state.wanted + state.window.len() as u64 {
                break state.next;
            }
            state = shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        };
        state.next += 1;
        let (buffer, part) = (state.free.pop(), state.part.clone());
        drop(state);

        let (epoch, batch) = course.place(number);
        let made = catch_unwind(AssertUnwindSafe(|| {
            let mut made = buffer.unwrap_or_else(Buffer::new);
            let (inputs, targets) = (&mut made.inputs, &mut made.targets);
            // What is generated is there whole.
            let whole = batches.samples_of(batch);
            let wanted = whole.map_or(0..usize::MAX, |samples| part.of(samples));
            let filled = batches.fill_part(epoch, batch, wanted.clone(), inputs, targets)?;
            made.samples = whole.unwrap_or(filled);
            made.made = wanted.start..wanted.start + filled;
            Ok(made)
        }));
        let made = made.unwrap_or_else(|panic| {
            Err(DataError::Panicked {
                epoch,
                batch,
                reason: panic_message(&*panic).to_owned(),
            })
        });

        let mut state = shared.lock();
        let place = (number % state.window.len() as u64) as usize;
        state.window[place] = Some(made);
        if number == state.wanted {
            shared.ready.notify_one();
        }
    }
}

/// A batch, ready for use. Dropping it gives its memory back to the prefetcher.
pub struct Prepared<T: Element> {
    epoch: u64,
    batch: usize,
    buffer: Buffer<T>,
    home: Arc<Shared<T>>,
}

impl<T: Element> Prepared<T> {
    /// The epoch, from 0.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Which batch of the epoch, from 0.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.buffer.samples
    }

    /// Which of them are here.
    pub fn made(&self) -> Range<usize> {
        self.buffer.made.clone()
    }

    /// The samples that are here, one after another.
    pub fn inputs(&self) -> &[T] {
        &self.buffer.inputs
    }

    /// Their labels: a class number or some values each.
    pub fn targets(&self) -> &[T] {
        &self.buffer.targets
    }
}

impl<T: Element> Drop for Prepared<T> {
    fn drop(&mut self) {
        let buffer = std::mem::replace(&mut self.buffer, Buffer::new());
        self.home.lock().free.push(buffer);
    }
}
