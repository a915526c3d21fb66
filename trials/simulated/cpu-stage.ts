/** What a request costs on the CPU before it can join a batch. */
import { type Architecture, defaultSequenceLength } from '../devices/architecture.ts'

export interface CpuStage {
  /** On the server's one event loop: reading, parsing and answering, ms. */
  readonly acceptMs: number
  /** On any core: tokenising a text, decoding and resizing an image, ms. */
  readonly prepareMs: number
  /** Standard deviation of ln(prepare). */
  readonly jitter: number
  /** Network and hand-overs between threads: latency without load, ms. */
  readonly overheadMs: number
  /** As `DeviceLatency.relativeError`, of the CPU times. */
  readonly relativeError: number
}

/**
 * The built-in predictor on one 2.x GHz server core: about 0.5 ms for a text of 128 tokens and 8 ms for a JPEG of a photograph, all told, by
 * CPU time over requests at saturation. For comparison, published tokenisers take 0.005 to 0.22 ms a text (devices/tables/cpu-tokenizer.csv).
 */
export function cpuStageOf(architecture: Architecture, sequenceLength = defaultSequenceLength): CpuStage {
  const text = architecture.kind !== 'convnet'
  return {
    acceptMs: 0.25,
    prepareMs: text ? 0.1 + 0.001 * sequenceLength : 7.5,
    jitter: 0.25,
    overheadMs: 0.3,
    relativeError: 0.3,
  }
}
