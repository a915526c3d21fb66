/**
 * Measures the speed of a core of this machine relative to the core of the device model's CPU costs
 * (`npm run bench:predictor -- cpu`, and `-- inference`).
 */

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
const requests = 40

/** A unit of typical server work: a matrix product, and parsing of requests. */
function work(left: Float32Array, right: Float32Array, product: Float32Array): number {
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

/** Time of one unit on the reference core, ms: the 10 % quantile of thousands of units. */
const referenceMs = 0.312
/** Before them the code is compiled. */
const warmUpPieces = 60
const pieces = 200

/**
 * How often as fast a core is as the one that the device model knows: by the median of pieces of
 * work, which take a fifth of a second or less. A machine that shares its cores with others has
 * another speed a minute later.
 */
export function measureCoreSpeed(nowMs = () => performance.now()): number {
  const matrix = () => Float32Array.from({ length: side * side }, (_, i) => (i % 7) / 7)
  const [left, right, product] = [matrix(), matrix(), matrix()]
  for (let i = 0; i < warmUpPieces; i++) work(left, right, product)
  const tookMs = Float64Array.from({ length: pieces }, () => {
    const begun = nowMs()
    work(left, right, product)
    return nowMs() - begun
  })
  return referenceMs / tookMs.sort()[pieces / 2]!
}
