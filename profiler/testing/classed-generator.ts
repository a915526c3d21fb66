import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Target } from '../model/target.ts'
import type { VirtualRun, VirtualServer } from '../model/virtual-server.ts'
import { StreamingGenerator } from './streaming-generator.ts'

/** One request in so many is of the class `rare`, the others are `usual`. */
export const rareEvery = 20

const classesOf = (latencyMs: Float64Array): string[] =>
  Array.from(latencyMs, (_, i) => (i % rareEvery === 7 ? 'rare' : 'usual'))

/** As `StreamingGenerator`, its requests of two classes that are served alike. */
export class ClassedGenerator extends StreamingGenerator {
  override async play(target: Target, load: Load): Promise<LoadRun> {
    const run = await super.play(target, load)
    return { ...run, stream: { ...run.stream!, classes: classesOf(run.latencyMs) } }
  }
}

/** The same of a server in virtual time whose answers are all first token. */
export class ClassedServer implements VirtualServer {
  constructor(private readonly inner: VirtualServer) {}

  play(load: Load): VirtualRun {
    const run = this.inner.play(load)
    const { latencyMs } = run
    const latenciesMs = { ttft: latencyMs, tpot: latencyMs.map(() => 0), e2e: latencyMs }
    return {
      ...run,
      stream: {
        latenciesMs,
        tokens: latencyMs.map(() => 1),
        classes: classesOf(latencyMs),
        gapsMs: new Float64Array(0),
      },
    }
  }
}
