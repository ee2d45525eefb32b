//! The network: a transformer over the chunks of a state and the options of questions, one logit an option.
//!
//! A chunk sees itself. An option, which is read together with its question, sees itself and every chunk. So an answer does
//! not depend on other questions nor on other options, and the state is read once for all of them. Products run in bytes,
//! exactly, so that their result does not depend on how they are split.

use std::ops::Range;

use rayon::prelude::*;
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::{SimdOp as _, SimdUnaryOp as _};
use rten_tensor::{Layout as _, NdTensorView};
use rten_vecmath::{
    ExtendInit as _, Gelu, MinMax, Normalize, NormalizeOptions, Quantize, Softmax, Sum, SumSquareSub,
};

use super::weights::{InvalidWeights, Nibbles, Rows, Weights};

/// Rows that go through a layer's products together.
const BLOCK_ROWS: usize = 128;
/// Tokens of options that are read at a time: what bounds the memory of an inquiry.
const OPTION_ROWS: usize = 2048;
const BUCKETS: usize = 32;
/// The bucket of what stands far to the left: how an option sees the state.
const FAR: usize = 15;
const PLACES: usize = 512;
/// The highest first byte of an input.
const HIGHEST_INPUT: f32 = 255.0;
/// An input has a second byte for what the first one left over, so many times as fine. With one byte a bit that is rounded
/// differently somewhere would move all that follows by as much as rounding does.
const FINER: f32 = 256.0;
/// The zero of the second byte.
const MIDDLE: u8 = 128;
/// The highest byte of a weight. Some processors add two products in sixteen bits and would cut off what does not fit; with
/// these it does, so that every processor gets the same sums.
const HIGHEST_WEIGHT: u8 = 63;

/// A product: weights of a byte with a scale a column, inputs of two with a scale and a zero a row.
struct Linear {
    packed: PackedBMatrix<i8>,
    scales: Vec<f32>,
    /// What an input of ones gives, by which its zero is taken out of the result.
    ones: Vec<i32>,
    bias: Vec<f32>,
    inputs: usize,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Layer {
    /// Queries, keys and values, side by side.
    attention: Linear,
    output: Linear,
    up: Linear,
    down: Linear,
    norm_attention: Norm,
    norm_output: Norm,
}

pub(super) struct Network {
    words: Nibbles,
    places: Rows,
    norm: Norm,
    /// For each head what a distance adds to a score, from the furthest left to the furthest right.
    distances: Vec<Vec<f32>>,
    far: Vec<f32>,
    layers: Vec<Layer>,
    head: Linear,
    logit: Vec<f32>,
    logit_bias: f32,
    width: usize,
    epsilon: f32,
}

/// Which rows are chunks of the state, and which are options.
struct Layout {
    chunks: Vec<Range<usize>>,
    options: Vec<Range<usize>>,
}

impl Layout {
    /// The rows of the whole state: chunks come first.
    fn state(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.end)
    }
}

impl Network {
    pub(super) fn load(weights: &Weights) -> Result<Self, InvalidWeights> {
        let bytes = GemmExecutor::<u8, i8, i32>::new();
        let heads = weights.number("heads")?;
        let relative = weights.floats("relative.weight")?;
        if relative.len() != BUCKETS * heads {
            return Err(InvalidWeights("distances".to_owned()));
        }
        let distance = |place: usize| bucket(place, PLACES - 1) * heads;
        let distances = (0..heads)
            .map(|head| (0..2 * PLACES - 1).map(|place| relative[distance(place) + head]).collect())
            .collect();
        let layer = |number: usize| {
            let name = |part: &str| format!("layers.{number}.{part}");
            let parts = ["query", "key", "value"].map(&name);
            Ok(Layer {
                attention: Linear::load(weights, &bytes, &parts.each_ref().map(String::as_str))?,
                output: Linear::load(weights, &bytes, &[&name("output")])?,
                up: Linear::load(weights, &bytes, &[&name("up")])?,
                down: Linear::load(weights, &bytes, &[&name("down")])?,
                norm_attention: Norm::load(weights, &name("norm_attention"))?,
                norm_output: Norm::load(weights, &name("norm_output"))?,
            })
        };
        #[expect(clippy::cast_possible_truncation, reason = "a small number")]
        let epsilon = weights.config("epsilon").as_f64().unwrap_or(1e-5) as f32;
        Ok(Self {
            words: weights.nibbles("word.weight")?,
            places: weights.rows("position.weight")?,
            norm: Norm::load(weights, "norm")?,
            distances,
            far: relative[FAR * heads..][..heads].to_vec(),
            layers: (0..weights.number("layers")?).map(layer).collect::<Result<_, InvalidWeights>>()?,
            head: Linear::load(weights, &bytes, &["head"])?,
            logit: weights.floats("logit.weight")?,
            logit_bias: weights.floats("logit.bias")?.iter().sum(),
            width: weights.number("width")?,
            epsilon,
        })
    }

    /// The logit of each option, given the chunks of a state.
    pub(super) fn logits(&self, chunks: &[Vec<u32>], options: &[Vec<u32>]) -> Vec<f32> {
        let mut logits = Vec::with_capacity(options.len());
        let mut rest = options;
        while !rest.is_empty() {
            let mut rows = 0;
            let fitting = rest.iter().take_while(|option| {
                rows += option.len();
                rows <= OPTION_ROWS
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            logits.extend(self.pass(chunks, now));
            rest = later;
        }
        logits
    }

    fn pass(&self, chunks: &[Vec<u32>], options: &[Vec<u32>]) -> Vec<f32> {
        let mut row = 0;
        let mut place = |node: &Vec<u32>| {
            row += node.len();
            row - node.len()..row
        };
        let layout = Layout {
            chunks: chunks.iter().map(&mut place).collect(),
            options: options.iter().map(&mut place).collect(),
        };
        let mut x = vec![0.0; row * self.width];
        let tokens = chunks.iter().chain(options).flat_map(|node| node.iter().zip(0..));
        for ((token, place), x) in tokens.zip(x.chunks_exact_mut(self.width)) {
            self.words.add_row(*token as usize, x);
            self.places.add_row(place, x);
        }
        self.norm.apply(&mut x, self.epsilon);
        for layer in &self.layers {
            self.layer(layer, &layout, &mut x);
        }
        let first: Vec<f32> = layout
            .options
            .iter()
            .flat_map(|option| &x[option.start * self.width..][..self.width])
            .copied()
            .collect();
        let hidden = self.head.product(&first);
        let logit = |hidden: &[f32]| {
            hidden.iter().zip(&self.logit).map(|(value, weight)| value.tanh() * weight).sum::<f32>()
                + self.logit_bias
        };
        hidden.chunks_exact(self.width).map(logit).collect()
    }

    fn layer(&self, layer: &Layer, layout: &Layout, x: &mut [f32]) {
        let block = BLOCK_ROWS * self.width;
        let mut mixed = vec![0.0; x.len() * 3];
        mixed.par_chunks_mut(block * 3).zip(x.par_chunks(block)).for_each(|(mixed, x)| {
            mixed.copy_from_slice(&layer.attention.product(x));
        });
        let heads: Vec<Vec<f32>> =
            (0..self.distances.len()).into_par_iter().map(|head| self.attend(head, &mixed, layout)).collect();
        drop(mixed);
        let size = self.width / heads.len();
        x.par_chunks_mut(block).enumerate().for_each(|(number, x)| {
            let mut seen = vec![0.0; x.len()];
            for (row, seen) in seen.chunks_exact_mut(self.width).enumerate() {
                let row = number * BLOCK_ROWS + row;
                for (seen, head) in seen.chunks_exact_mut(size).zip(&heads) {
                    seen.copy_from_slice(&head[row * size..][..size]);
                }
            }
            add(x, &layer.output.product(&seen));
            layer.norm_attention.apply(x, self.epsilon);
            let mut inner = layer.up.product(x);
            Gelu {}.map_mut(&mut inner);
            add(x, &layer.down.product(&inner));
            layer.norm_output.apply(x, self.epsilon);
        });
    }

    /// What one head sees, for every row: queries, keys and values come side by side.
    fn attend(&self, head: usize, mixed: &[f32], layout: &Layout) -> Vec<f32> {
        let size = self.width / self.distances.len();
        let part = |rows: &Range<usize>, which: usize| {
            let from = which * self.width + head * size;
            let all = NdTensorView::from_data([mixed.len() / (3 * self.width), 3 * self.width], mixed);
            all.slice((rows.clone(), from..from + size))
        };
        let mut seen = vec![0.0; mixed.len() / (3 * self.width) * size];
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let scale = 1.0 / (size as f32).sqrt();
        for rows in &layout.chunks {
            let mut scores = scores(part(rows, 0), part(rows, 1), scale);
            for (row, scores) in scores.chunks_exact_mut(rows.len()).enumerate() {
                add(scores, &self.distances[head][PLACES - 1 - row..][..rows.len()]);
                Softmax::new_mut(scores).dispatch();
            }
            gather(&scores, part(rows, 2), &mut seen[rows.start * size..rows.end * size]);
        }
        let (Some(first), Some(last)) = (layout.options.first(), layout.options.last()) else { return seen };
        let (state, asked) = (0..layout.state(), first.start..last.end);
        let mut far = scores(part(&asked, 0), part(&state, 1), scale);
        let mut near = Vec::new();
        let mut line = Vec::new();
        for rows in &layout.options {
            let mut own = scores(part(rows, 0), part(rows, 1), scale);
            for (row, own) in own.chunks_exact_mut(rows.len()).enumerate() {
                let far = &mut far[(rows.start - asked.start + row) * state.len()..][..state.len()];
                add(own, &self.distances[head][PLACES - 1 - row..][..rows.len()]);
                line.clear();
                line.extend(far.iter().map(|score| score + self.far[head]));
                line.extend_from_slice(own);
                Softmax::new_mut(&mut line).dispatch();
                far.copy_from_slice(&line[..state.len()]);
                own.copy_from_slice(&line[state.len()..]);
            }
            near.push(own);
        }
        gather(&far, part(&state, 2), &mut seen[asked.start * size..asked.end * size]);
        let mut more = Vec::new();
        for (rows, own) in layout.options.iter().zip(&near) {
            more.clear();
            more.resize(rows.len() * size, 0.0);
            gather(own, part(rows, 2), &mut more);
            add(&mut seen[rows.start * size..rows.end * size], &more);
        }
        seen
    }
}

impl Linear {
    /// One product out of several with the same input.
    fn load(
        weights: &Weights,
        bytes: &GemmExecutor<u8, i8, i32>,
        names: &[&str],
    ) -> Result<Self, InvalidWeights> {
        let (mut values, mut scales, mut bias) = (Vec::new(), Vec::new(), Vec::new());
        let mut inputs = 0;
        for name in names {
            let rows = weights.rows(&format!("{name}.weight"))?;
            inputs = rows.columns;
            values.extend(rows.values);
            scales.extend(rows.scales);
            bias.extend(weights.floats(&format!("{name}.bias"))?);
        }
        if values.len() != inputs * scales.len() || bias.len() != scales.len() {
            return Err(InvalidWeights(format!("the shape of {names:?}")));
        }
        if values.iter().any(|value| value.unsigned_abs() > HIGHEST_WEIGHT) {
            return Err(InvalidWeights(format!("a weight of {names:?} is too large")));
        }
        let ones =
            values.chunks_exact(inputs).map(|row| row.iter().map(|value| i32::from(*value)).sum()).collect();
        let matrix = NdTensorView::from_data([scales.len(), inputs], &values[..]);
        Ok(Self { packed: bytes.prepack_b(matrix.transposed()), scales, ones, bias, inputs })
    }

    /// What it makes of the rows of `x`, bias included.
    fn product(&self, x: &[f32]) -> Vec<f32> {
        let rows = x.len() / self.inputs;
        let mut bytes: Vec<u8> = Vec::with_capacity(2 * x.len());
        let (mut scales, mut zeros) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for row in x.chunks_exact(self.inputs) {
            let (low, high) = MinMax::new(row).dispatch();
            let (low, high) = (low.min(0.0), high.max(0.0));
            let scale = ((high - low) / HIGHEST_INPUT).max(1e-8);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
            let zero = (-low / scale).round_ties_even().clamp(0.0, HIGHEST_INPUT) as u8;
            rounded(row, scale, zero, &mut bytes);
            scales.push(scale);
            zeros.push(zero);
        }
        // The first bytes of all rows, then the second ones.
        let mut rest = vec![0.0; self.inputs];
        for (number, row) in x.chunks_exact(self.inputs).enumerate() {
            let (scale, zero) = (scales[number], f32::from(zeros[number]));
            let first = &bytes[number * self.inputs..][..self.inputs];
            for ((rest, value), byte) in rest.iter_mut().zip(row).zip(first) {
                *rest = value - (f32::from(*byte) - zero) * scale;
            }
            rounded(&rest, scale / FINER, MIDDLE, &mut bytes);
        }
        let outputs = self.scales.len();
        let mut sums = vec![0_i32; 2 * rows * outputs];
        let a = GemmInputA::Unpacked(NdTensorView::from_data([2 * rows, self.inputs], &bytes[..]));
        let b = GemmInputB::Packed(&self.packed);
        let done = GemmExecutor::<u8, i8, i32>::new().gemm(&mut sums, a, b, GemmOptions::default());
        done.unwrap_or_else(|error| unreachable!("shapes fit: {error}"));
        let mut y = Vec::with_capacity(rows * outputs);
        let (first, second) = sums.split_at(rows * outputs);
        let sums = first.chunks_exact(outputs).zip(second.chunks_exact(outputs));
        for (((first, second), scale), zero) in sums.zip(scales).zip(zeros) {
            let zero = i32::from(zero);
            let columns = first.iter().zip(second).zip(&self.ones).zip(&self.scales).zip(&self.bias);
            #[expect(clippy::cast_precision_loss, reason = "the sums are below 2^28")]
            y.extend(columns.map(|((((first, second), one), column), bias)| {
                let sum = (first - zero * one) as f32 + (second - i32::from(MIDDLE) * one) as f32 / FINER;
                sum * (scale * column) + bias
            }));
        }
        y
    }
}

/// Appends a row as bytes.
fn rounded(row: &[f32], scale: f32, zero: u8, bytes: &mut Vec<u8>) {
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

/// The bucket of the distance from a place to another: exact when near, logarithmic when far, and each side its own.
fn bucket(to: usize, from: usize) -> usize {
    let half = BUCKETS / 2;
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

/// How much each query asks for each key, row by row.
fn scores(queries: NdTensorView<'_, f32, 2>, keys: NdTensorView<'_, f32, 2>, scale: f32) -> Vec<f32> {
    let mut scores = vec![0.0; queries.size(0) * keys.size(0)];
    let options = GemmOptions { alpha: scale, ..GemmOptions::default() };
    let (a, b) = (GemmInputA::Unpacked(queries), GemmInputB::Unpacked(keys.transposed()));
    GemmExecutor::<f32>::new()
        .gemm(&mut scores, a, b, options)
        .unwrap_or_else(|error| unreachable!("shapes fit: {error}"));
    scores
}

/// The values, each as much as it was asked for.
fn gather(shares: &[f32], values: NdTensorView<'_, f32, 2>, seen: &mut [f32]) {
    let shares = NdTensorView::from_data([shares.len() / values.size(0).max(1), values.size(0)], shares);
    let (a, b) = (GemmInputA::Unpacked(shares), GemmInputB::Unpacked(values));
    let done = GemmExecutor::<f32>::new().gemm(seen, a, b, GemmOptions::default());
    done.unwrap_or_else(|error| unreachable!("shapes fit: {error}"));
}
