//! Everything in DAHL that decides or predicts: policies, performance models, simulator, planner.
