//! The file of the weights: a line that identifies the format, a header in JSON, then the tensors. `training/model.py`
//! writes it.

use serde_json::Value;

/// The file, which stays where it was before the model became a crate of its own, until the next weights ship: moving it
/// now and replacing it later would be two changes of 100 MB instead of one.
#[cfg(not(debug_assertions))]
fn file() -> Result<&'static [u8], InvalidWeights> {
    Ok(include_bytes!("../../analyzer/src/embedded/weights.bin"))
}

/// The same file, read from the checkout: compiled in, it would be copied into every test binary, each time it is linked.
#[cfg(debug_assertions)]
fn file() -> Result<&'static [u8], InvalidWeights> {
    use std::io;
    use std::sync::LazyLock;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../analyzer/src/embedded/weights.bin");
    static FILE: LazyLock<io::Result<Vec<u8>>> = LazyLock::new(|| std::fs::read(PATH));
    FILE.as_deref().map_err(|error| InvalidWeights(format!("{PATH}: {error}")))
}

const MAGIC: &[u8] = b"AUSPEX1\n";
/// Elements of a matrix of four bits that share a scale.
const GROUP: usize = 32;

/// The weights are not as the code expects them: the build is defective.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the weights of the embedded model are invalid: {0}")]
pub struct InvalidWeights(pub(crate) String);

/// The parsed header, and the bytes of all tensors.
pub(crate) struct Weights {
    header: Value,
    data: &'static [u8],
}

/// A matrix with a byte for each element and a scale for each row.
pub(crate) struct ByteMatrix {
    pub(crate) columns: usize,
    pub(crate) scales: Vec<f32>,
    pub(crate) values: Vec<i8>,
}

/// A matrix with four bits for each element. Its rows are looked up, never multiplied, so it stays packed.
pub(crate) struct NibbleMatrix {
    columns: usize,
    scales: &'static [u8],
    values: &'static [u8],
}

impl Weights {
    /// Parses the header of the file.
    pub(crate) fn open() -> Result<Self, InvalidWeights> {
        let invalid = || InvalidWeights("no header".to_owned());
        let rest = file()?.strip_prefix(MAGIC).ok_or_else(invalid)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(invalid)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| invalid())?;
        let (header, data) = rest.split_at_checked(length).ok_or_else(invalid)?;
        let header = serde_json::from_slice(header).map_err(|error| InvalidWeights(error.to_string()))?;
        Ok(Self { header, data })
    }

    /// A setting of the model in the header.
    pub(crate) fn config(&self, name: &str) -> &Value {
        &self.header["config"][name]
    }

    /// A setting that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<usize, InvalidWeights> {
        let number = self.config(name).as_u64().and_then(|number| usize::try_from(number).ok());
        number.ok_or_else(|| InvalidWeights(format!("no {name}")))
    }

    /// The shape of a tensor, and all bytes from its start on.
    fn tensor(&self, name: &str, kind: &str) -> Result<(usize, usize, &'static [u8]), InvalidWeights> {
        let invalid = || InvalidWeights(format!("no tensor {name} of kind {kind}"));
        let entry = &self.header["tensors"][name];
        let size = |value: &Value| value.as_u64().and_then(|size| usize::try_from(size).ok());
        let shape = entry["shape"].as_array().ok_or_else(invalid)?;
        let rows = shape.first().and_then(size).ok_or_else(invalid)?;
        let columns = shape.get(1).map_or(Some(1), size).ok_or_else(invalid)?;
        let offset = size(&entry["offset"]).ok_or_else(invalid)?;
        let data = self.data.get(offset..).ok_or_else(invalid)?;
        if entry["kind"] == kind { Ok((rows, columns, data)) } else { Err(invalid()) }
    }

    /// A tensor of floats, row by row.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "f32")?;
        floats(data, rows * columns).ok_or_else(|| InvalidWeights(format!("{name} is truncated")))
    }

    pub(crate) fn byte_matrix(&self, name: &str) -> Result<ByteMatrix, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "i8")?;
        let truncated = || InvalidWeights(format!("{name} is truncated"));
        let scales = floats(data, rows).ok_or_else(truncated)?;
        let values = data.get(rows * 4..rows * 4 + rows * columns).ok_or_else(truncated)?;
        Ok(ByteMatrix { columns, scales, values: values.iter().map(|byte| byte.cast_signed()).collect() })
    }

    pub(crate) fn nibble_matrix(&self, name: &str) -> Result<NibbleMatrix, InvalidWeights> {
        let (rows, columns, data) = self.tensor(name, "i4")?;
        let truncated = || InvalidWeights(format!("{name} is truncated"));
        let (scales, rest) = data.split_at_checked(rows * columns / GROUP * 2).ok_or_else(truncated)?;
        let values = rest.get(..rows * columns / 2).ok_or_else(truncated)?;
        if columns % GROUP == 0 { Ok(NibbleMatrix { columns, scales, values }) } else { Err(truncated()) }
    }
}

fn floats(data: &[u8], count: usize) -> Option<Vec<f32>> {
    let (floats, _) = data.get(..count * 4)?.as_chunks::<4>();
    Some(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

impl ByteMatrix {
    /// Adds a row of the matrix to `sum`.
    pub(crate) fn add_row(&self, row: usize, sum: &mut [f32]) {
        let values = &self.values[row * self.columns..][..self.columns];
        for (sum, value) in sum.iter_mut().zip(values) {
            *sum += f32::from(*value) * self.scales[row];
        }
    }
}

impl NibbleMatrix {
    /// Adds a row of the matrix to `sum`.
    pub(crate) fn add_row(&self, row: usize, sum: &mut [f32]) {
        let (scales, _) = self.scales.as_chunks::<2>();
        let scales = &scales[row * self.columns / GROUP..][..self.columns / GROUP];
        let values = &self.values[row * self.columns / 2..][..self.columns / 2];
        for ((sum, values), scale) in
            sum.chunks_exact_mut(GROUP).zip(values.chunks_exact(GROUP / 2)).zip(scales)
        {
            // A scale is a bfloat16: the upper half of an f32.
            let scale = f32::from_bits(u32::from(u16::from_le_bytes(*scale)) << 16);
            for (pair, byte) in sum.chunks_exact_mut(2).zip(values) {
                pair[0] += (f32::from(byte & 15) - 8.0) * scale;
                pair[1] += (f32::from(byte >> 4) - 8.0) * scale;
            }
        }
    }
}
