//! The file that the weights travel in: a line of magic, a header in JSON, then the tensors. `training/model.py` writes it.

use serde_json::Value;

/// The file stays where it was before the model became a crate of its own, until the next weights ship: moving it now
/// and replacing it later would be two changes of 100 MB instead of one.
static FILE: &[u8] = include_bytes!("../../analyzer/src/embedded/weights.bin");
const MAGIC: &[u8] = b"AUSPEX1\n";
/// Elements that share a scale where four bits have to do.
const GROUP: usize = 32;

/// The weights are not as the code expects them: a defect of the build.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the weights of the embedded model are broken: {0}")]
pub struct InvalidWeights(pub(super) String);

/// The parsed header, and where the tensors start.
pub(super) struct Weights {
    header: Value,
    data: &'static [u8],
}

/// A matrix as bytes with a scale for each row.
pub(super) struct Rows {
    pub(super) columns: usize,
    pub(super) scales: Vec<f32>,
    pub(super) values: Vec<i8>,
}

/// A matrix of four bits an element. It is looked up, never multiplied, so it stays as it is.
pub(super) struct Nibbles {
    columns: usize,
    scales: &'static [u8],
    values: &'static [u8],
}

impl Weights {
    pub(super) fn open() -> Result<Self, InvalidWeights> {
        let broken = || InvalidWeights("no header".to_owned());
        let rest = FILE.strip_prefix(MAGIC).ok_or_else(broken)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(broken)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| broken())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(broken)?;
        let header = serde_json::from_slice(header).map_err(|error| InvalidWeights(error.to_string()))?;
        Ok(Self { header, data })
    }

    /// Something that the header says of the model.
    pub(super) fn config(&self, name: &str) -> &Value {
        &self.header["config"][name]
    }

    pub(super) fn number(&self, name: &str) -> Result<usize, InvalidWeights> {
        let number = self.config(name).as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| InvalidWeights(format!("no {name}")))
    }

    /// The shape of a tensor, and what is stored from its start on.
    fn tensor(&self, name: &str, kind: &str) -> Result<(usize, usize, &'static [u8]), InvalidWeights> {
        let broken = || InvalidWeights(format!("no tensor {name} of kind {kind}"));
        let entry = &self.header["tensors"][name];
        let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
        let shape = entry["shape"].as_array().ok_or_else(broken)?;
        let rows = shape.first().and_then(size).ok_or_else(broken)?;
        let columns = shape.get(1).map_or(Some(1), size).ok_or_else(broken)?;
        let offset = size(&entry["offset"]).ok_or_else(broken)?;
        let data = self.data.get(offset..).ok_or_else(broken)?;
        if entry["kind"] == kind { Ok((rows, columns, data)) } else { Err(broken()) }
    }

    pub(super) fn floats(&self, name: &str) -> Result<Vec<f32>, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "f32")?;
        floats(data, rows * columns).ok_or_else(|| InvalidWeights(format!("{name} is cut")))
    }

    pub(super) fn rows(&self, name: &str) -> Result<Rows, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "i8")?;
        let cut = || InvalidWeights(format!("{name} is cut"));
        let scales = floats(data, rows).ok_or_else(cut)?;
        let values = data.get(rows * 4..rows * 4 + rows * columns).ok_or_else(cut)?;
        Ok(Rows { columns, scales, values: values.iter().map(|byte| byte.cast_signed()).collect() })
    }

    pub(super) fn nibbles(&self, name: &str) -> Result<Nibbles, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "i4")?;
        let cut = || InvalidWeights(format!("{name} is cut"));
        let (scales, rest) = data.split_at_checked(rows * columns / GROUP * 2).ok_or_else(cut)?;
        let values = rest.get(..rows * columns / 2).ok_or_else(cut)?;
        if columns % GROUP == 0 { Ok(Nibbles { columns, scales, values }) } else { Err(cut()) }
    }
}

fn floats(data: &[u8], count: usize) -> Option<Vec<f32>> {
    let (floats, _) = data.get(..count * 4)?.as_chunks::<4>();
    Some(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

impl Rows {
    /// Adds a row to what is there.
    pub(super) fn add_row(&self, row: usize, sum: &mut [f32]) {
        let values = &self.values[row * self.columns..][..self.columns];
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += f32::from(*value) * self.scales[row];
        }
    }
}

impl Nibbles {
    /// Adds a row to what is there.
    pub(super) fn add_row(&self, row: usize, sum: &mut [f32]) {
        let (scales, _) = self.scales.as_chunks::<2>();
        let scales = &scales[row * self.columns / GROUP..][..self.columns / GROUP];
        let values = &self.values[row * self.columns / 2..][..self.columns / 2];
        for ((sum, values), scale) in
            sum.chunks_exact_mut(GROUP).zip(values.chunks_exact(GROUP / 2)).zip(scales)
        {
            // The upper half of a float.
            let scale = f32::from_bits(u32::from(u16::from_le_bytes(*scale)) << 16);
            for (pair, byte) in sum.chunks_exact_mut(2).zip(values) {
                pair[0] += (f32::from(byte & 15) - 8.0) * scale;
                pair[1] += (f32::from(byte >> 4) - 8.0) * scale;
            }
        }
    }
}
