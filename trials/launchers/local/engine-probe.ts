/**
 * Reads scheduler and cache metrics of a language-model server. Counters are reported as increases
 * since the first reading.
 */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import { findMaxSeriesValue } from '../../../profiler/prometheus.ts'
import type { LanguageEngine } from '../../servers/known-servers.ts'
import type { EngineFigure, EngineMetrics } from '../../servers/language-program.ts'
import { languagePrograms } from '../../servers/language-servers.ts'
import { recogniseServer } from '../../servers/own-command.ts'
import { isLanguageServer } from '../../servers/server-kinds.ts'
import { type DeviceProbe, scrapeTimeoutMs } from '../device-probe.ts'
import type { PredictorTemplate } from '../template.ts'

type EngineReading = Readonly<Partial<Record<EngineFigure, number>>>

const metricsByEngine: Readonly<Record<LanguageEngine, EngineMetrics>> = {
  vllm: languagePrograms.vllm.metrics,
  sglang: languagePrograms.sglang.metrics,
  tgi: languagePrograms.tgi.metrics,
  'tensorrt-llm': languagePrograms['tensorrt-llm'].metrics,
  // Metrics of version 0.5. It divides its cache among its slots, so it never preempts.
  'llama.cpp': {
    sequences: ['llamacpp:requests_processing'],
    waiting: ['llamacpp:requests_deferred'],
    accepted: ['llamacpp:spec_decode_num_accepted_tokens_total'],
    draftings: ['llamacpp:spec_decode_num_drafts_total'],
  },
}

/**
 * Finds the engine that a command starts, by the configured server or by its program; undefined for
 * other commands, and for engines whose metrics the tuner does not read.
 */
export function findMeteredEngine({
  server,
  command,
}: Pick<Extract<PredictorTemplate, { kind: 'command' }>, 'server' | 'command'>):
  | LanguageEngine
  | undefined {
  const engine =
    server === undefined
      ? recogniseServer(command)?.engine
      : isLanguageServer(server.kind)
        ? server.kind
        : undefined
  return engine !== undefined && Object.keys(metricsByEngine[engine]).length > 0
    ? engine
    : undefined
}

/** Reads `/metrics` of a server that was started. */
export const createEngineProbe = (url: string, server: LanguageEngine): DeviceProbe => {
  let firstReading: EngineReading | undefined
  return async () => {
    const response = await fetch(new URL('/metrics', url), {
      signal: AbortSignal.timeout(scrapeTimeoutMs),
    })
    const { sequences, waiting, cacheUse, ...reading } = parseEngineMetrics(
      await readAnswer(response.body),
      server,
    )
    // The server may have served before: count from the first reading.
    const baseline = firstReading ?? reading
    firstReading = baseline
    const computeIncrease = (figure: keyof typeof reading) =>
      reading[figure] === undefined ? undefined : reading[figure] - (baseline[figure] ?? 0)
    return {
      sequences,
      waiting,
      cacheUse,
      preemptions: computeIncrease('preemptions'),
      acceptedTokens: readAcceptedTokens(computeIncrease, reading.stepTokens),
    }
  }
}

/**
 * Computes the mean accepted draft tokens of a step: from two counters, or from the tokens of a
 * step, one of which is the model's own.
 */
function readAcceptedTokens(
  computeIncrease: (figure: 'accepted' | 'draftings') => number | undefined,
  stepTokens = 0,
): number | undefined {
  const [accepted, draftings = 0] = [computeIncrease('accepted'), computeIncrease('draftings')]
  if (accepted !== undefined && draftings > 0) return accepted / draftings
  return stepTokens >= 1 ? stepTokens - 1 : undefined
}

/**
 * Parses one scrape. Counters are those since the server's start; metrics that the server lacks are
 * absent.
 */
export function parseEngineMetrics(text: string, server: LanguageEngine): EngineReading {
  const entries = Object.entries(metricsByEngine[server]).flatMap(([figure, names]) => {
    const value = names
      .map((name) => findMaxSeriesValue(text, name))
      .find((each) => each !== undefined)
    return value === undefined ? [] : [[figure, value] as const]
  })
  return Object.fromEntries(entries)
}
