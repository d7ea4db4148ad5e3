//! Numbers of tensors, whatever they are stored as.

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

pub(crate) fn floats(tensor: &TensorView<'_>) -> Result<Vec<f32>, String> {
    let dtype = tensor.dtype();
    let data = tensor.data();
    if dtype == Dtype::F32 {
        Ok(numbers(data, f32::from_le_bytes))
    } else if dtype == Dtype::F16 {
        Ok(numbers(data, |bytes| f16::from_le_bytes(bytes).to_f32()))
    } else if dtype == Dtype::BF16 {
        Ok(numbers(data, |bytes| bf16::from_le_bytes(bytes).to_f32()))
    } else if dtype == Dtype::F64 {
        Ok(numbers(data, |bytes| f64::from_le_bytes(bytes) as f32))
    } else if dtype == Dtype::I8 {
        // One scale for all of them, which is not stored: vectors of length 1 have none.
        Ok(numbers(data, |bytes| f32::from(i8::from_le_bytes(bytes))))
    } else {
        Err(format!("numbers are stored as {dtype}"))
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
