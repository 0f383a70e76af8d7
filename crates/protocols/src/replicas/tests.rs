//! Claims of the paper and of the design, step by step.
