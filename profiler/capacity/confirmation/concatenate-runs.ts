import { mapMetrics } from '../../model/latency-metrics.ts'
import type { LoadRun } from '../../model/load-run.ts'

/**
 * Concatenates two runs of the same load into one: a rate is judged on all of its windows as one
 * run.
 *
 * - Send times of `b` are shifted by the length of `a`; counts and durations are added.
 * - `latenessP99Ms` is the larger of the two, an upper bound of the joint percentile;
 *   `generatorCores` is the larger one too.
 * - Omitted, because they are evaluated per window: `lateMs`, `generatorPausesMs`, `machineWait` (CPU
 *   wait), `connections` and `answerSamples`.
 * - If either run was cut, the result is cut, too. If only `a` was, `cutMs` is the end of `b`: with the
 *   cut time of `a`, all requests of `b` would count as cut off.
 * - A stream, its input tokens and its classes remain only where both runs have them.
 */
export function concatenateRuns(a: LoadRun, b: LoadRun): LoadRun {
  const concatenate = (x: Float64Array, y: Float64Array, shiftMs = 0) =>
    Float64Array.from([...x, ...y.map((value) => value + shiftMs)])
  const errorKinds = { ...a.errorKinds }
  for (const [kind, count] of Object.entries(b.errorKinds))
    errorKinds[kind] = (errorKinds[kind] ?? 0) + count
  return {
    load: { ...a.load, durationS: a.load.durationS + b.load.durationS },
    sentMs: concatenate(a.sentMs, b.sentMs, 1000 * a.seconds),
    latencyMs: concatenate(a.latencyMs, b.latencyMs),
    errorKinds,
    planned: a.planned + b.planned,
    latenessP99Ms: Math.max(a.latenessP99Ms, b.latenessP99Ms),
    seconds: a.seconds + b.seconds,
    elapsedS: a.elapsedS + b.elapsedS,
    generatorCores: Math.max(a.generatorCores, b.generatorCores),
    cutMs:
      b.cutMs === undefined && a.cutMs === undefined
        ? undefined
        : 1000 * a.seconds + (b.cutMs ?? 1000 * b.seconds),
    stream: a.stream &&
      b.stream && {
        latenciesMs: mapMetrics((metric) =>
          concatenate(a.stream!.latenciesMs[metric], b.stream!.latenciesMs[metric]),
        ),
        tokens: concatenate(a.stream.tokens, b.stream.tokens),
        ...(a.stream.inputTokens &&
          b.stream.inputTokens && {
            inputTokens: concatenate(a.stream.inputTokens, b.stream.inputTokens),
          }),
        ...(a.stream.classes &&
          b.stream.classes && { classes: [...a.stream.classes, ...b.stream.classes] }),
        gapsMs: concatenate(a.stream.gapsMs, b.stream.gapsMs),
      },
  }
}
