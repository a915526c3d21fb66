/**
 * What a server of language models says of its scheduler and its cache, in the metrics of the
 * versions that `language-programs.ts` names, and of llama.cpp 0.5.
 */
import { readAnswer } from '../../../profiler/bounded-reader.ts'
import { seriesValue } from '../../../profiler/prometheus.ts'
import { ownServerOf } from '../../servers/own-command.ts'
import type { LanguageEngine } from '../../servers/known-servers.ts'
import { isLanguageServer } from '../../servers/language-servers.ts'
import type { PredictorTemplate } from '../template.ts'
import { type DeviceProbe, scrapeTimeoutMs } from './device-probes.ts'

/**
 * `accepted` and `draftings`: draft tokens that were kept, and how often an answer had some
 * drafted; `stepTokens`: tokens that a step lately made of an answer.
 */
type EngineFigure =
  | 'sequences'
  | 'waiting'
  | 'cacheUse'
  | 'preemptions'
  | 'accepted'
  | 'draftings'
  | 'stepTokens'
type EngineReading = Readonly<Partial<Record<EngineFigure, number>>>

/**
 * The first of these names that is there. TGI tells no use of its cache, and takes no place back.
 * TensorRT-LLM 1.2 hands its statistics out once, as JSON, and under load does not come to their
 * end (NVIDIA/TensorRT-LLM issue 4926): they are left alone.
 */
const names: Readonly<
  Record<LanguageEngine, Readonly<Partial<Record<EngineFigure, readonly string[]>>>>
> = {
  vllm: {
    sequences: ['vllm:num_requests_running'],
    waiting: ['vllm:num_requests_waiting'],
    cacheUse: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
    preemptions: ['vllm:num_preemptions_total'],
    accepted: ['vllm:spec_decode_num_accepted_tokens_total'],
    draftings: ['vllm:spec_decode_num_drafts_total'],
  },
  sglang: {
    sequences: ['sglang:num_running_reqs'],
    waiting: ['sglang:num_queue_reqs'],
    cacheUse: ['sglang:token_usage'],
    preemptions: ['sglang:num_retracted_requests_total', 'sglang:num_retracted_reqs_total'],
    stepTokens: ['sglang:spec_accept_length'],
  },
  tgi: { sequences: ['tgi_batch_current_size'], waiting: ['tgi_queue_size'] },
  'tensorrt-llm': {},
  // Its cache is shared out among its places, so that none is ever taken back.
  'llama.cpp': {
    sequences: ['llamacpp:requests_processing'],
    waiting: ['llamacpp:requests_deferred'],
    accepted: ['llamacpp:spec_decode_num_accepted_tokens_total'],
    draftings: ['llamacpp:spec_decode_num_drafts_total'],
  },
}

/**
 * Which of them a command starts, by the server that was asked for or by its program; undefined of
 * others, and of those that tell nothing.
 */
export function tellingEngine({
  server,
  command,
}: Pick<Extract<PredictorTemplate, { kind: 'command' }>, 'server' | 'command'>):
  | LanguageEngine
  | undefined {
  const engine =
    server === undefined
      ? ownServerOf(command)?.engine
      : isLanguageServer(server.kind)
        ? server.kind
        : undefined
  return engine !== undefined && Object.keys(names[engine]).length > 0 ? engine : undefined
}

/** Reads `/metrics` of a server that was started. */
export const engineProbe = (url: string, server: LanguageEngine): DeviceProbe => {
  let first: EngineReading | undefined
  return async () => {
    const response = await fetch(new URL('/metrics', url), {
      signal: AbortSignal.timeout(scrapeTimeoutMs),
    })
    const { sequences, waiting, cacheUse, ...reading } = engineReading(
      await readAnswer(response.body),
      server,
    )
    const before = first ?? reading
    first = before
    const since = (figure: keyof typeof reading) =>
      reading[figure] === undefined ? undefined : reading[figure] - (before[figure] ?? 0)
    return {
      sequences,
      waiting,
      cacheUse,
      preemptions: since('preemptions'),
      acceptedTokens: acceptedOf(since, reading.stepTokens),
    }
  }
}

/**
 * Draft tokens that a step kept of each answer: by two counters, or by what it made of an answer,
 * of which one is the model's own.
 */
function acceptedOf(
  since: (figure: 'accepted' | 'draftings') => number | undefined,
  stepTokens = 0,
): number | undefined {
  const [accepted, draftings = 0] = [since('accepted'), since('draftings')]
  if (accepted !== undefined && draftings > 0) return accepted / draftings
  return stepTokens >= 1 ? stepTokens - 1 : undefined
}

/** What one look tells, counts since its start; what the server does not tell is absent. */
export function engineReading(text: string, server: LanguageEngine): EngineReading {
  const entries = Object.entries(names[server]).flatMap(([figure, of]) => {
    const value = of.map((name) => seriesValue(text, name)).find((each) => each !== undefined)
    return value === undefined ? [] : [[figure, value] as const]
  })
  return Object.fromEntries(entries)
}
