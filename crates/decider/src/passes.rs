//! The order of a computation: in passes, between which it can be stopped or wait.
//!
//! A step is one layer for the state, or one layer for some options. Each layer reads the state first, and then all options
//! one batch after the other, so that the state is read once for all of them and only one layer of it is kept. Options that
//! would take too much memory together are read in groups, with the state once for each group. A pass is as many steps as
//! take a second or two of one core: a short question is answered in one.

use std::ops::Range;
use std::sync::Arc;

use crate::network::{Network, Projection, Texts};

/// The cost of a pass, in tokens that one layer reads. The longest state has as many.
pub(crate) const PASS_COST: usize = 4096;
/// Attending to so many tokens of the state costs as much as the rest of a layer.
const STATE_ROWS_OF_EQUAL_COST: usize = 1024;
/// Tokens of options that are evaluated in one step.
const BATCH_ROWS: usize = 2048;
/// Tokens of options that are kept at a time, 3 KiB each: those of 42 options of the greatest length.
const GROUP_ROWS: usize = 16 * 1024;

/// An option to be read together with its question.
pub(crate) struct OptionText {
    /// The tokens of both.
    pub(crate) tokens: Vec<u32>,
    /// The rows of the state that it does not attend to.
    pub(crate) unread: Arc<[Range<usize>]>,
}

/// The computation of the logits of options, given the chunks of a state.
pub(crate) struct Passes {
    chunks: Vec<Vec<u32>>,
    options: Vec<OptionText>,
    /// Those of the options of all groups that are done.
    logits: Vec<f32>,
    group: Option<Group>,
}

/// The computation for a group of options.
struct Group {
    layer: usize,
    state: Texts,
    /// Of the state in this layer, once that has been read.
    projection: Option<Projection>,
    batches: Vec<Batch>,
    /// Batches that have been read in this layer.
    read: usize,
}

/// Options that are read in one step.
struct Batch {
    texts: Texts,
    /// For each of them, the rows of the state that it does not attend to.
    unread: Vec<Arc<[Range<usize>]>>,
}

impl Passes {
    /// A computation that has not begun.
    pub(crate) fn new(chunks: Vec<Vec<u32>>, options: Vec<OptionText>) -> Self {
        Self { chunks, options, logits: Vec::new(), group: None }
    }

    /// The logit of each option, if all have been computed.
    pub(crate) fn logits(&self) -> Option<&[f32]> {
        (self.logits.len() == self.options.len()).then_some(&self.logits)
    }

    /// Makes the next pass.
    pub(crate) fn advance(&mut self, network: &Network) {
        let mut cost = 0;
        while cost < PASS_COST && self.logits().is_none() {
            cost += self.step(network);
        }
    }

    /// Makes the next step, if there is one; returns its cost.
    pub(crate) fn step(&mut self, network: &Network) -> usize {
        let rest = &self.options[self.logits.len()..];
        if rest.is_empty() {
            return 0;
        }
        let group = self.group.get_or_insert_with(|| Group::new(network, &self.chunks, rest));
        let cost = group.step(network);
        if group.layer == network.layers() {
            self.logits.extend(group.batches.iter().flat_map(|batch| network.logits(&batch.texts)));
            self.group = None;
        }
        cost
    }
}

impl Group {
    /// The first of these options that fit into a group.
    fn new(network: &Network, chunks: &[Vec<u32>], options: &[OptionText]) -> Self {
        let group = &options[..fitting(options, GROUP_ROWS)];
        let (mut batches, mut rest) = (Vec::new(), group);
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(fitting(rest, BATCH_ROWS));
            let texts = network.embed(batch.iter().map(|option| option.tokens.as_slice()));
            let unread = batch.iter().map(|option| Arc::clone(&option.unread)).collect();
            batches.push(Batch { texts, unread });
            rest = later;
        }
        let state = network.embed(chunks.iter().map(Vec::as_slice));
        Self { layer: 0, state, projection: None, batches, read: 0 }
    }

    /// Makes the next step; returns its cost.
    fn step(&mut self, network: &Network) -> usize {
        let Some(projection) = &self.projection else {
            let projection = network.project(self.layer, &self.state);
            // Nothing reads the state after the last layer.
            if self.layer + 1 < network.layers() {
                network.read_state(self.layer, &mut self.state, &projection);
            }
            self.projection = Some(projection);
            return self.state.row_count();
        };
        let batch = &mut self.batches[self.read];
        let cost = option_cost(batch.texts.row_count(), self.state.row_count());
        network.read_options(self.layer, &mut batch.texts, &batch.unread, projection);
        self.read += 1;
        if self.read == self.batches.len() {
            self.projection = None;
            self.read = 0;
            self.layer += 1;
        }
        cost
    }
}

/// The cost of options with so many tokens together in one layer.
pub(crate) fn option_cost(rows: usize, state_rows: usize) -> usize {
    rows * (1 + state_rows / STATE_ROWS_OF_EQUAL_COST)
}

/// How many options, from the first on, have at most `rows` tokens together: at least one.
fn fitting(options: &[OptionText], rows: usize) -> usize {
    let mut sum = 0;
    let fitting = options.iter().take_while(|option| {
        sum += option.tokens.len();
        sum <= rows
    });
    fitting.count().max(1)
}
