//! Numbers of tensors, whatever they are stored as.

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

type Add = fn(&mut [f32], &[u8], f32);

/// Adds so many times what is stored.
fn add<const N: usize>(sum: &mut [f32], data: &[u8], times: f32, number: impl Fn([u8; N]) -> f32) {
    sum.iter_mut().zip(data.as_chunks().0).for_each(|(sum, bytes)| *sum += number(*bytes) * times);
}

fn adds(dtype: Dtype) -> Result<Add, String> {
    if dtype == Dtype::F32 {
        Ok(|sum, data, times| add(sum, data, times, f32::from_le_bytes))
    } else if dtype == Dtype::F16 {
        Ok(|sum, data, times| add(sum, data, times, |bytes| f16::from_le_bytes(bytes).to_f32()))
    } else if dtype == Dtype::BF16 {
        Ok(|sum, data, times| add(sum, data, times, |bytes| bf16::from_le_bytes(bytes).to_f32()))
    } else if dtype == Dtype::F64 {
        Ok(|sum, data, times| add(sum, data, times, |bytes| f64::from_le_bytes(bytes) as f32))
    } else if dtype == Dtype::I8 {
        // One scale for all of them, which is not stored: vectors of length 1 have none.
        Ok(|sum, data, times| add(sum, data, times, |bytes| f32::from(i8::from_le_bytes(bytes))))
    } else {
        Err(format!("numbers are stored as {dtype}"))
    }
}

pub(crate) fn floats(tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let mut all = vec![0.0; tensor.shape().iter().product()];
    adds(tensor.dtype())?(&mut all, tensor.data(), 1.0);
    Ok(all)
}

/// A table as it is stored: to convert all of it takes longer than to answer a question.
pub(crate) struct Rows {
    file: Vec<u8>,
    begin: usize,
    /// Bytes of a row.
    width: usize,
    add: Add,
    pub(crate) count: usize,
    pub(crate) dimensions: usize,
}

impl Rows {
    pub(crate) fn read(file: Vec<u8>, name: &str) -> Result<Self, String> {
        let (begin, width, add, count, dimensions) = {
            let tensors = SafeTensors::deserialize(&file).map_err(|error| error.to_string())?;
            let rows = tensors.tensor(name).map_err(|error| error.to_string())?;
            let &[count, dimensions] = rows.shape() else {
                return Err(format!("{name} has the shape {:?}", rows.shape()));
            };
            if dimensions == 0 {
                return Err(format!("{name} has no columns"));
            }
            let begin = rows.data().as_ptr().addr() - file.as_ptr().addr();
            (begin, rows.data().len() / count.max(1), adds(rows.dtype())?, count, dimensions)
        };
        Ok(Self { file, begin, width, add, count, dimensions })
    }

    /// Adds one of the rows so many times.
    pub(crate) fn add(&self, row: usize, times: f32, sum: &mut [f32]) {
        (self.add)(sum, &self.file[self.begin + row * self.width..][..self.width], times);
    }
}

pub(crate) fn integers(tensor: &TensorView<'_>) -> Result<Vec<i64>, String> {
    let dtype = tensor.dtype();
    let data = tensor.data();
    if dtype == Dtype::I64 {
        Ok(numbers(data, i64::from_le_bytes))
    } else if dtype == Dtype::I32 {
        Ok(numbers(data, |bytes| i32::from_le_bytes(bytes).into()))
    } else {
        Err(format!("integers are stored as {dtype}"))
    }
}

fn numbers<const N: usize, T>(data: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks().0.iter().map(|bytes| number(*bytes)).collect()
}
