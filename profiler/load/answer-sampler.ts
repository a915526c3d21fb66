/**
 * Samples a few whole answers of a load, to check them afterwards. At most one every 100 ms is
 * copied, so that sampling does not affect latencies.
 */

import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import type { AnswerReader } from './answer-reader.ts'

type AnswerSample = NonNullable<LoadRun['answerSamples']>[number]

/** Minimum time between two samples. Assumed. */
const minIntervalMs = 100
/** Samples until the next `takeSamples`. Assumed. */
const maxSamples = 20
/** Longer answers are not sampled. Assumed. */
const maxSampleBytes = 2 ** 20

export class AnswerSampler {
  private readonly bodies: ReadonlySet<number>
  private nextMs = 0
  private samples: AnswerSample[] = []

  constructor(
    { sample, bodies }: Pick<HttpTarget, 'sample' | 'bodies'>,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.bodies = new Set(sample?.bodies.filter((body) => body < bodies.length))
  }

  /** Claims the next sample for an answer to this body. Returns false if none is due. */
  claimSample(bodyIndex: number): boolean {
    if (this.bodies.size === 0 || !this.bodies.has(bodyIndex) || this.samples.length >= maxSamples)
      return false
    const nowMs = this.now()
    if (nowMs < this.nextMs) return false
    this.nextMs = nowMs + minIntervalMs
    return true
  }

  addSample(bodyIndex: number, answer: Uint8Array): void {
    if (answer.byteLength <= maxSampleBytes && this.samples.length < maxSamples)
      this.samples.push({ body: bodyIndex, answer })
  }

  /** Wraps the reader to sample its answer, if a sample is due and the answer has no error. */
  wrapReader(bodyIndex: number, reader: AnswerReader): AnswerReader {
    return this.claimSample(bodyIndex)
      ? new SampledReader(reader, (answer) => this.addSample(bodyIndex, answer))
      : reader
  }

  /** Returns the samples since the last call. */
  takeSamples(): readonly AnswerSample[] {
    const samples = this.samples
    this.samples = []
    return samples
  }
}

/** Copies an answer while its reader checks it. */
class SampledReader implements AnswerReader {
  private chunks: Buffer[] = []
  private bytes = 0

  constructor(
    private readonly reader: AnswerReader,
    private readonly onSample: (answer: Buffer) => void,
  ) {}

  read(chunk: Buffer): void {
    this.bytes += chunk.length
    if (this.bytes <= maxSampleBytes) this.chunks.push(Buffer.from(chunk))
    else this.chunks = []
    this.reader.read(chunk)
  }

  end() {
    const outcome = this.reader.end()
    if (outcome.failure === undefined && this.bytes <= maxSampleBytes)
      this.onSample(Buffer.concat(this.chunks))
    return outcome
  }

  classifyInterruption(): string | undefined {
    return this.reader.classifyInterruption()
  }
}
