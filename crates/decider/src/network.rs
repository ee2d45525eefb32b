//! The network: a transformer over the chunks of a state and the options of questions, with one logit for each option.
//!
//! A chunk attends to itself. An option, which is read together with its question, attends to itself and to every chunk.
//! So an answer depends neither on other questions nor on other options, and the state is read once for all of them;
//! `passes` says in which order.
//! Matrix products are sums of whole numbers, so that the result does not depend on how the work is split over cores.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::{SimdOp as _, SimdUnaryOp as _};
use rten_tensor::{Layout as _, NdTensorView};
use rten_vecmath::{
    ExtendInit as _, Gelu, MinMax, Normalize, NormalizeOptions, Quantize, Softmax, Sum, SumSquareSub,
};

use crate::weights::{ByteMatrix, InvalidWeights, NibbleMatrix, Weights};

/// Rows that are multiplied with the weights of a layer at a time.
const BLOCK_ROWS: usize = 128;
/// Buckets of distances between two tokens, half of them for each direction.
const DISTANCE_BUCKETS: usize = 32;
/// The bucket of what is far to the left: where the state is, seen from an option.
const FAR_LEFT_BUCKET: usize = 15;
/// Positions in a chunk, or in an option with its question, that the model can tell apart.
const POSITIONS: usize = 512;
/// The largest first byte of an input.
const MAX_INPUT: f32 = 255.0;
/// How many times finer the second byte of an input is, which holds the remainder of the first. With one byte, a bit that
/// is rounded differently somewhere would change everything after it by as much as rounding does.
const REMAINDER_STEPS: f32 = 256.0;
/// The zero point of the second byte.
const REMAINDER_ZERO: u8 = 128;
/// The largest byte of a weight. Some processors add two products in sixteen bits and saturate; weights up to this one
/// never do, so that every processor computes the same sums.
const MAX_WEIGHT: u8 = 63;

/// The attention score of a row that is not read: its share is exactly zero.
const UNREAD_SCORE: f32 = -1e9;

/// A linear layer: weights are one byte with a scale for each column, inputs two bytes with a scale and a zero point for
/// each row.
struct Linear {
    packed: PackedBMatrix<i8>,
    scales: Vec<f32>,
    /// The sum of each column's weights, which subtracts the zero point of an input from the result.
    column_sums: Vec<i32>,
    bias: Vec<f32>,
    inputs: usize,
}

/// A layer normalization.
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Layer {
    /// Queries, keys and values, side by side.
    query_key_value: Linear,
    output: Linear,
    up: Linear,
    down: Linear,
    norm_attention: Norm,
    norm_output: Norm,
}

/// The transformer.
pub(crate) struct Network {
    tokens: NibbleMatrix,
    positions: ByteMatrix,
    norm: Norm,
    /// For each head, what a distance adds to an attention score, from the furthest left to the furthest right.
    distance_bias: Vec<Vec<f32>>,
    /// For each head, what the distance of the state adds to a score of an option.
    state_bias: Vec<f32>,
    layers: Vec<Layer>,
    head: Linear,
    logit: Vec<f32>,
    logit_bias: f32,
    width: usize,
    epsilon: f32,
}

/// Texts side by side, each with the rows of its tokens.
pub(crate) struct Texts {
    rows: Vec<Range<usize>>,
    x: Vec<f32>,
}

/// Queries, keys and values of texts in one layer.
pub(crate) struct Projection {
    query_key_value: Vec<f32>,
    row_count: usize,
}

impl Texts {
    /// The number of tokens.
    pub(crate) fn row_count(&self) -> usize {
        self.rows.last().map_or(0, |rows| rows.end)
    }
}

impl Network {
    /// Unpacks the weights.
    pub(crate) fn load(weights: &Weights) -> Result<Self, InvalidWeights> {
        let executor = GemmExecutor::<u8, i8, i32>::new();
        let heads = weights.number("heads")?;
        let relative = weights.floats("relative.weight")?;
        if relative.len() != DISTANCE_BUCKETS * heads {
            return Err(InvalidWeights("the shape of relative.weight".to_owned()));
        }
        let bucket_start = |position: usize| distance_bucket(position, POSITIONS - 1) * heads;
        let distance_bias = (0..heads)
            .map(|head| {
                (0..2 * POSITIONS - 1).map(|position| relative[bucket_start(position) + head]).collect()
            })
            .collect();
        let layer = |number: usize| {
            let name = |part: &str| format!("layers.{number}.{part}");
            let parts = ["query", "key", "value"].map(&name);
            Ok(Layer {
                query_key_value: Linear::load(weights, &executor, &parts.each_ref().map(String::as_str))?,
                output: Linear::load(weights, &executor, &[&name("output")])?,
                up: Linear::load(weights, &executor, &[&name("up")])?,
                down: Linear::load(weights, &executor, &[&name("down")])?,
                norm_attention: Norm::load(weights, &name("norm_attention"))?,
                norm_output: Norm::load(weights, &name("norm_output"))?,
            })
        };
        #[expect(clippy::cast_possible_truncation, reason = "a small number")]
        let epsilon = weights.config("epsilon").as_f64().unwrap_or(1e-5) as f32;
        Ok(Self {
            tokens: weights.nibble_matrix("word.weight")?,
            positions: weights.byte_matrix("position.weight")?,
            norm: Norm::load(weights, "norm")?,
            distance_bias,
            state_bias: relative[FAR_LEFT_BUCKET * heads..][..heads].to_vec(),
            layers: (0..weights.number("layers")?).map(layer).collect::<Result<_, InvalidWeights>>()?,
            head: Linear::load(weights, &executor, &["head"])?,
            logit: weights.floats("logit.weight")?,
            logit_bias: weights.floats("logit.bias")?.iter().sum(),
            width: weights.number("width")?,
            epsilon,
        })
    }

    /// The number of layers.
    pub(crate) fn layers(&self) -> usize {
        self.layers.len()
    }

    /// The input of the first layer.
    pub(crate) fn embed<'a>(&self, texts: impl Iterator<Item = &'a [u32]> + Clone) -> Texts {
        let mut row = 0;
        let mut rows_of = |tokens: &[u32]| {
            row += tokens.len();
            row - tokens.len()..row
        };
        let rows = texts.clone().map(&mut rows_of).collect();
        let mut x = vec![0.0; row * self.width];
        let tokens = texts.flat_map(|tokens| tokens.iter().zip(0..));
        for ((token, position), x) in tokens.zip(x.chunks_exact_mut(self.width)) {
            self.tokens.add_row(*token as usize, x);
            self.positions.add_row(position, x);
        }
        self.norm.apply(&mut x, self.epsilon);
        Texts { rows, x }
    }

    /// Queries, keys and values of texts in a layer.
    pub(crate) fn project(&self, layer: usize, texts: &Texts) -> Projection {
        let block = BLOCK_ROWS * self.width;
        let mut query_key_value = vec![0.0; texts.x.len() * 3];
        query_key_value.par_chunks_mut(block * 3).zip(texts.x.par_chunks(block)).for_each(|(output, x)| {
            output.copy_from_slice(&self.layers[layer].query_key_value.apply(x));
        });
        Projection { query_key_value, row_count: texts.row_count() }
    }

    /// One layer for the chunks of a state, which attend to themselves.
    pub(crate) fn read_state(&self, layer: usize, chunks: &mut Texts, projection: &Projection) {
        let attend = |head| self.attend_to_self(head, projection, &chunks.rows);
        let heads = (0..self.heads()).into_par_iter().map(attend).collect();
        self.finish_layer(layer, heads, &mut chunks.x);
    }

    /// One layer for options, which attend to themselves and to the state but for the rows that each leaves unread.
    pub(crate) fn read_options(
        &self,
        layer: usize,
        options: &mut Texts,
        unread: &[Arc<[Range<usize>]>],
        state: &Projection,
    ) {
        let projection = self.project(layer, options);
        let attend = |head| {
            let texts = options.rows.iter().zip(unread);
            self.attend_to_state(head, &projection, texts, state)
        };
        let heads = (0..self.heads()).into_par_iter().map(attend).collect();
        drop(projection);
        self.finish_layer(layer, heads, &mut options.x);
    }

    /// The logit of each option after the last layer.
    pub(crate) fn logits(&self, options: &Texts) -> Vec<f32> {
        let first_row = |option: &Range<usize>| &options.x[option.start * self.width..][..self.width];
        let first: Vec<f32> = options.rows.iter().flat_map(first_row).copied().collect();
        let hidden = self.head.apply(&first);
        let logit = |hidden: &[f32]| {
            hidden.iter().zip(&self.logit).map(|(value, weight)| value.tanh() * weight).sum::<f32>()
                + self.logit_bias
        };
        hidden.chunks_exact(self.width).map(logit).collect()
    }

    fn heads(&self) -> usize {
        self.distance_bias.len()
    }

    /// Everything of a layer after the attention, whose output is given for each head.
    fn finish_layer(&self, layer: usize, heads: Vec<Vec<f32>>, x: &mut [f32]) {
        let layer = &self.layers[layer];
        let size = self.width / heads.len();
        x.par_chunks_mut(BLOCK_ROWS * self.width).enumerate().for_each(|(number, x)| {
            let mut attended = vec![0.0; x.len()];
            for (row, attended) in attended.chunks_exact_mut(self.width).enumerate() {
                let row = number * BLOCK_ROWS + row;
                for (part, head) in attended.chunks_exact_mut(size).zip(&heads) {
                    part.copy_from_slice(&head[row * size..][..size]);
                }
            }
            add(x, &layer.output.apply(&attended));
            layer.norm_attention.apply(x, self.epsilon);
            let mut inner = layer.up.apply(x);
            Gelu {}.map_mut(&mut inner);
            add(x, &layer.down.apply(&inner));
            layer.norm_output.apply(x, self.epsilon);
        });
    }

    /// What a score is multiplied with.
    fn score_scale(&self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let size = (self.width / self.heads()) as f32;
        1.0 / size.sqrt()
    }

    /// The output of one attention head for texts that attend to themselves.
    fn attend_to_self(&self, head: usize, projection: &Projection, texts: &[Range<usize>]) -> Vec<f32> {
        let size = self.width / self.heads();
        let [queries, keys, values] = [0, 1, 2].map(|which| self.part(projection, head, which));
        let mut output = vec![0.0; projection.row_count * size];
        for rows in texts {
            let mut scores = attention_scores(queries(rows), keys(rows), self.score_scale());
            for (row, scores) in scores.chunks_exact_mut(rows.len()).enumerate() {
                add(scores, self.distance_bias_of(head, row, rows.len()));
                Softmax::new_mut(scores).dispatch();
            }
            weighted_sum(&scores, values(rows), &mut output[rows.start * size..rows.end * size]);
        }
        output
    }

    /// The output of one attention head for texts that attend to themselves and to the state, each but for the rows that it
    /// leaves unread.
    fn attend_to_state<'a>(
        &self,
        head: usize,
        projection: &Projection,
        texts: impl ExactSizeIterator<Item = (&'a Range<usize>, &'a Arc<[Range<usize>]>)> + Clone,
        state: &Projection,
    ) -> Vec<f32> {
        let (size, scale) = (self.width / self.heads(), self.score_scale());
        let [queries, keys, values] = [0, 1, 2].map(|which| self.part(projection, head, which));
        let [_, state_keys, state_values] = [0, 1, 2].map(|which| self.part(state, head, which));
        let (all, whole_state) = (0..projection.row_count, 0..state.row_count);
        let mut state_scores = attention_scores(queries(&all), state_keys(&whole_state), scale);
        let mut own_scores = Vec::with_capacity(texts.len());
        let mut line = Vec::new();
        for (rows, unread) in texts.clone() {
            let mut own = attention_scores(queries(rows), keys(rows), scale);
            for (row, own) in own.chunks_exact_mut(rows.len()).enumerate() {
                let of_state = &mut state_scores[(rows.start + row) * state.row_count..][..state.row_count];
                add(own, self.distance_bias_of(head, row, rows.len()));
                line.clear();
                line.extend(of_state.iter().map(|score| score + self.state_bias[head]));
                unread.iter().for_each(|rows| line[rows.clone()].fill(UNREAD_SCORE));
                line.extend_from_slice(own);
                Softmax::new_mut(&mut line).dispatch();
                of_state.copy_from_slice(&line[..state.row_count]);
                own.copy_from_slice(&line[state.row_count..]);
            }
            own_scores.push(own);
        }
        let mut output = vec![0.0; projection.row_count * size];
        weighted_sum(&state_scores, state_values(&whole_state), &mut output);
        let mut own_output = Vec::new();
        for ((rows, _), own) in texts.zip(&own_scores) {
            own_output.clear();
            own_output.resize(rows.len() * size, 0.0);
            weighted_sum(own, values(rows), &mut own_output);
            add(&mut output[rows.start * size..rows.end * size], &own_output);
        }
        output
    }

    /// The queries (0), keys (1) or values (2) of one head, for any rows.
    fn part<'a>(
        &self,
        projection: &'a Projection,
        head: usize,
        which: usize,
    ) -> impl Fn(&Range<usize>) -> NdTensorView<'a, f32, 2> + use<'a> {
        let size = self.width / self.heads();
        let from = which * self.width + head * size;
        let shape = [projection.row_count, 3 * self.width];
        move |rows| {
            let all = NdTensorView::from_data(shape, &projection.query_key_value[..]);
            all.slice((rows.clone(), from..from + size))
        }
    }

    /// What distances add to the scores of a row of a text of `length` tokens.
    fn distance_bias_of(&self, head: usize, row: usize, length: usize) -> &[f32] {
        &self.distance_bias[head][POSITIONS - 1 - row..][..length]
    }
}

impl Linear {
    /// Joins several linear layers that have the same input into one.
    fn load(
        weights: &Weights,
        executor: &GemmExecutor<u8, i8, i32>,
        names: &[&str],
    ) -> Result<Self, InvalidWeights> {
        let (mut values, mut scales, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        let mut inputs = 0;
        for name in names {
            let matrix = weights.byte_matrix(&format!("{name}.weight"))?;
            inputs = matrix.columns;
            values.extend(matrix.values);
            scales.extend(matrix.scales);
            bias.extend(weights.floats(&format!("{name}.bias"))?);
        }
        if values.len() != inputs * scales.len() || bias.len() != scales.len() {
            return Err(InvalidWeights(format!("the shape of {names:?}")));
        }
        if values.iter().any(|value| value.unsigned_abs() > MAX_WEIGHT) {
            return Err(InvalidWeights(format!("a weight of {names:?} is too large")));
        }
        let column_sums =
            values.chunks_exact(inputs).map(|row| row.iter().map(|value| i32::from(*value)).sum()).collect();
        let matrix = NdTensorView::from_data([scales.len(), inputs], &values[..]);
        Ok(Self { packed: executor.prepack_b(matrix.transposed()), scales, column_sums, bias, inputs })
    }

    /// Applies the layer to each row of `x`.
    fn apply(&self, x: &[f32]) -> Vec<f32> {
        let rows = x.len() / self.inputs;
        let mut bytes: Vec<u8> = Vec::with_capacity(2 * x.len());
        let (mut scales, mut zeros) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in x.chunks_exact(self.inputs) {
            let (low, high) = MinMax::new(row).dispatch();
            let (low, high) = (low.min(0.0), high.max(0.0));
            let scale = ((high - low) / MAX_INPUT).max(1e-8);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
            let zero = (-low / scale).round_ties_even().clamp(0.0, MAX_INPUT) as u8;
            quantize_row(row, scale, zero, &mut bytes);
            scales.push(scale);
            zeros.push(zero);
        }
        // The first bytes of all rows come before the second ones.
        let mut remainder = vec![0.0; self.inputs];
        for (number, row) in x.chunks_exact(self.inputs).enumerate() {
            let (scale, zero) = (scales[number], f32::from(zeros[number]));
            let first = &bytes[number * self.inputs..][..self.inputs];
            for ((remainder, value), byte) in remainder.iter_mut().zip(row).zip(first) {
                *remainder = value - (f32::from(*byte) - zero) * scale;
            }
            quantize_row(&remainder, scale / REMAINDER_STEPS, REMAINDER_ZERO, &mut bytes);
        }
        let outputs = self.scales.len();
        let mut sums = vec![0_i32; 2 * rows * outputs];
        let a = GemmInputA::Unpacked(NdTensorView::from_data([2 * rows, self.inputs], &bytes[..]));
        let b = GemmInputB::Packed(&self.packed);
        let done = GemmExecutor::<u8, i8, i32>::new().gemm(&mut sums, a, b, GemmOptions::default());
        done.unwrap_or_else(|error| unreachable!("the shapes match: {error}"));
        let mut y = Vec::with_capacity(rows * outputs);
        let (first, second) = sums.split_at(rows * outputs);
        let sums = first.chunks_exact(outputs).zip(second.chunks_exact(outputs));
        for (((first, second), scale), zero) in sums.zip(scales).zip(zeros) {
            let zero = i32::from(zero);
            let columns = first.iter().zip(second).zip(&self.column_sums).zip(&self.scales).zip(&self.bias);
            #[expect(clippy::cast_precision_loss, reason = "the sums are below 2^28")]
            y.extend(columns.map(|((((first, second), column_sum), column_scale), bias)| {
                let (first, second) =
                    (first - zero * column_sum, second - i32::from(REMAINDER_ZERO) * column_sum);
                let sum = first as f32 + second as f32 / REMAINDER_STEPS;
                sum * (scale * column_scale) + bias
            }));
        }
        y
    }
}

/// Appends a row, rounded to bytes.
fn quantize_row(row: &[f32], scale: f32, zero: u8, bytes: &mut Vec<u8>) {
    bytes.extend_init(|spare| Quantize::new(row, &mut spare[..row.len()], 1.0 / scale, zero).dispatch());
}

impl Norm {
    fn load(weights: &Weights, name: &str) -> Result<Self, InvalidWeights> {
        Ok(Self {
            weight: weights.floats(&format!("{name}.weight"))?,
            bias: weights.floats(&format!("{name}.bias"))?,
        })
    }

    fn apply(&self, x: &mut [f32], epsilon: f32) {
        for row in x.chunks_exact_mut(self.weight.len()) {
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            let count = row.len() as f32;
            let mean = Sum::new(row).dispatch() / count;
            let variance = SumSquareSub::new(row, mean).dispatch() / count;
            let options = NormalizeOptions {
                pre_scale_bias: mean,
                scale: 1.0 / (variance + epsilon).sqrt(),
                element_scale: Some(&self.weight),
                element_bias: Some(&self.bias),
                ..NormalizeOptions::default()
            };
            Normalize::new_mut(row, options).dispatch();
        }
    }
}

/// The bucket of the distance between two positions: exact when near, logarithmic when far, different for each direction.
fn distance_bucket(to: usize, from: usize) -> usize {
    let half = DISTANCE_BUCKETS / 2;
    let exact = half / 2;
    let side = if to > from { half } else { 0 };
    let distance = to.abs_diff(from);
    if distance < exact {
        return side + distance;
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 512")]
    let share = (distance as f32 / exact as f32).ln() / (128.0 / exact as f32).ln();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few steps"
    )]
    let far = exact + (share * (half - exact) as f32) as usize;
    side + far.min(half - 1)
}

fn add(sum: &mut [f32], more: &[f32]) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

/// The score of each key for each query, row by row.
fn attention_scores(
    queries: NdTensorView<'_, f32, 2>,
    keys: NdTensorView<'_, f32, 2>,
    scale: f32,
) -> Vec<f32> {
    let mut scores = vec![0.0; queries.size(0) * keys.size(0)];
    let options = GemmOptions { alpha: scale, ..GemmOptions::default() };
    let (a, b) = (GemmInputA::Unpacked(queries), GemmInputB::Unpacked(keys.transposed()));
    GemmExecutor::<f32>::new()
        .gemm(&mut scores, a, b, options)
        .unwrap_or_else(|error| unreachable!("the shapes match: {error}"));
    scores
}

/// The sum of the values for each query, weighted by its scores.
fn weighted_sum(scores: &[f32], values: NdTensorView<'_, f32, 2>, output: &mut [f32]) {
    let scores = NdTensorView::from_data([scores.len() / values.size(0).max(1), values.size(0)], scores);
    let (a, b) = (GemmInputA::Unpacked(scores), GemmInputB::Unpacked(values));
    let done = GemmExecutor::<f32>::new().gemm(output, a, b, GemmOptions::default());
    done.unwrap_or_else(|error| unreachable!("the shapes match: {error}"));
}
