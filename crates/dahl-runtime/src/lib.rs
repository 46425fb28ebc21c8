//! Everything in DAHL that executes: workers, memories and transfers, drivers, meters.
