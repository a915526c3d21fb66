/**
 * Measures the speed of a core of this machine relative to the core of the device model's CPU costs
 * (`npm run bench:predictor -- cpu`, and `-- inference`).
 */

/** Rows and columns of the multiplied matrices. */
const side = 48
const request = JSON.stringify({
  inputs: [
    {
      name: 'input_ids',
      shape: [1, 128],
      datatype: 'INT32',
      data: Array.from({ length: 128 }, (_, i) => 37 * i),
    },
  ],
})
/** Requests parsed in a piece. */
const requests = 40

/** Runs a piece of typical server work: a matrix product, and parsing of requests. */
function runPiece(left: Float32Array, right: Float32Array, product: Float32Array): number {
  for (let i = 0; i < side; i++)
    for (let j = 0; j < side; j++) {
      let sum = 0
      for (let k = 0; k < side; k++) sum += left[i * side + k]! * right[k * side + j]!
      product[i * side + j] = sum
    }
  let read = product[0]!
  for (let i = 0; i < requests; i++) read += JSON.parse(request).inputs[0].data[1]
  return read
}

/** Time of one piece on the reference core, ms: the 10 % quantile of thousands of pieces. */
const referenceMs = 0.312
/** Untimed pieces first, until `runPiece` is compiled. */
const warmUpPieces = 60
/** Timed pieces; their median counts. */
const timedPieces = 200

/**
 * Speed of a core relative to the reference core (2: twice as fast), from the median time of 200
 * pieces of work. A machine that shares its cores with others has another speed a minute later.
 */
export function measureCoreSpeed(nowMs = () => performance.now()): number {
  const matrix = () => Float32Array.from({ length: side * side }, (_, i) => (i % 7) / 7)
  const [left, right, product] = [matrix(), matrix(), matrix()]
  for (let i = 0; i < warmUpPieces; i++) runPiece(left, right, product)
  const tookMs = Float64Array.from({ length: timedPieces }, () => {
    const startMs = nowMs()
    runPiece(left, right, product)
    return nowMs() - startMs
  })
  return referenceMs / tookMs.sort()[timedPieces / 2]!
}
