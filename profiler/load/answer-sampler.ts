/**
 * Samples a few whole answers of a load, to check them afterwards. At most one every 100 ms is
 * copied, so that sampling does not affect latencies.
 */
import type { LoadRun } from '../model/load-run.ts'
import type { AnswerReader } from './answer-reader.ts'
import type { HttpTarget } from './child-messages.ts'

type Sampled = NonNullable<LoadRun['sampled']>[number]

const everyMs = 100
const maxPerLoad = 20
/** Longer answers are not sampled. */
const maxBytes = 2 ** 20

export class AnswerSampler {
  private readonly bodies: ReadonlySet<number>
  private nextMs = 0
  private kept: Sampled[] = []

  constructor(
    { sample, bodies }: Pick<HttpTarget, 'sample' | 'bodies'>,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.bodies = new Set(sample?.bodies.filter((body) => body < bodies.length))
  }

  /** Whether an answer to this body is wanted now. */
  wants(body: number): boolean {
    if (this.bodies.size === 0 || !this.bodies.has(body) || this.kept.length >= maxPerLoad)
      return false
    const nowMs = this.now()
    if (nowMs < this.nextMs) return false
    this.nextMs = nowMs + everyMs
    return true
  }

  keep(body: number, answer: Uint8Array): void {
    if (answer.byteLength <= maxBytes && this.kept.length < maxPerLoad)
      this.kept.push({ body, answer })
  }

  /** Wraps the reader to sample its good answer, if it is wanted. */
  reading(body: number, reader: AnswerReader): AnswerReader {
    return this.wants(body)
      ? new SampledAnswer(reader, (answer) => this.keep(body, answer))
      : reader
  }

  /** Returns the samples since the last call. */
  take(): readonly Sampled[] {
    const taken = this.kept
    this.kept = []
    return taken
  }
}

/** Copies an answer while its reader checks it. */
class SampledAnswer implements AnswerReader {
  private chunks: Buffer[] = []
  private bytes = 0

  constructor(
    private readonly reader: AnswerReader,
    private readonly keep: (answer: Buffer) => void,
  ) {}

  read(chunk: Buffer): void {
    this.bytes += chunk.length
    if (this.bytes <= maxBytes) this.chunks.push(Buffer.from(chunk))
    else this.chunks = []
    this.reader.read(chunk)
  }

  end() {
    const outcome = this.reader.end()
    if (outcome.failure === undefined && this.bytes <= maxBytes)
      this.keep(Buffer.concat(this.chunks))
    return outcome
  }

  broken(): string | undefined {
    return this.reader.broken()
  }
}
