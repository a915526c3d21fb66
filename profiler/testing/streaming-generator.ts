import { summariseRun } from '../load/load-point.ts'
import { VirtualLoadGenerator } from '../load/virtual-generator.ts'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import type { VirtualServer } from '../model/virtual-server.ts'

const tokens = 10

/**
 * Streams ten tokens an answer in virtual time: all of what the server takes for one but
 * `streamsMs` is the wait for its first token.
 */
export class StreamingGenerator implements LoadGenerator {
  readonly name: string = 'streaming, virtual'
  private readonly inner = new VirtualLoadGenerator()

  constructor(
    private readonly server: VirtualServer,
    private readonly streamsMs: number,
    private readonly signal: AbortSignal,
  ) {}

  async play(_: Target, load: Load): Promise<LoadRun> {
    const run = await this.inner.play({ kind: 'virtual', server: this.server }, load, this.signal)
    const each = (value: number) => run.latencyMs.map(() => value)
    const ttft = run.latencyMs.map((ms) => Math.max(1, ms - this.streamsMs))
    const latenciesMs = { ttft, tpot: each(this.streamsMs / tokens), e2e: run.latencyMs }
    return {
      ...run,
      latencyMs: ttft,
      stream: { latenciesMs, tokens: each(tokens), gapsMs: new Float64Array(0) },
    }
  }

  async run(target: Target, load: Load, slo: Slo) {
    return summariseRun(await this.play(target, load), slo)
  }

  async close() {}
}
