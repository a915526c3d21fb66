import { summariseRun } from '../load/load-point.ts'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadRun } from '../model/load-run.ts'

/** A run with these latencies (NaN: failed), sent evenly over its window. */
export function runOf(
  load: Load,
  latencyMs: readonly number[],
  more: Partial<LoadRun> = {},
): LoadRun {
  return {
    load,
    sentMs: Float64Array.from(latencyMs, (_, i) => (1000 * load.durationS * i) / latencyMs.length),
    latencyMs: Float64Array.from(latencyMs),
    errorKinds: {},
    planned: latencyMs.length,
    latenessP99Ms: 0,
    seconds: load.durationS,
    elapsedS: load.durationS,
    generatorCores: 0,
    ...more,
  }
}

/**
 * A generator whose runs are made up, and that remembers what it was asked for and how long it was
 * to rest, seconds: no server, no clock.
 */
export function scriptedGenerator(
  answer: (load: Load, window: number) => LoadRun,
): LoadGenerator & { readonly asked: Load[]; readonly rests: number[] } {
  const asked: Load[] = []
  const rests: number[] = []
  const play = async (_: unknown, load: Load) => answer(load, asked.push(load) - 1)
  return {
    name: 'scripted',
    asked,
    rests,
    play,
    rest: async (_, seconds) => {
      rests.push(seconds)
    },
    run: async (target, load, slo) => summariseRun(await play(target, load), slo),
    close: async () => {},
  }
}
