/** What `bench:devices` prints of servers of language models. */
import {
  engineErrors,
  engineProfiles,
  llmEngineNames,
} from '../../../predictor/llm/engine-profile.ts'
import { composedProfile, type Departure, departures } from './fit-profiles.ts'
import {
  barOf,
  blockServers,
  coveredBy,
  figureNames,
  type LeftOut,
  leftOut,
  measuredServers,
} from './judged-servers.ts'
import {
  assumedPromptTokens,
  type FigureName,
  mlperfServers,
  pilotServers,
  throughputServers,
} from './measured-servers.ts'

const percent = (ln: number) => `${(100 * Math.expm1(ln)).toFixed(0)} %`.padStart(6)

/**
 * A line for each figure: median, two thirds and nine tenths of |simulated / measured - 1| by the
 * larger over the smaller, and which way they lean.
 */
function* errorLines(
  what: string,
  rows: readonly Departure[],
  more = (_: readonly Departure[]) => '',
): Generator<string> {
  for (const figure of Object.keys(figureNames) as FigureName[]) {
    const own = rows.filter((row) => row.figure === figure)
    if (own.length === 0) continue
    const sizes = own.map(({ ln }) => Math.abs(ln)).sort((a, b) => a - b)
    const at = (q: number) =>
      percent(sizes[Math.min(sizes.length - 1, Math.floor(q * sizes.length))]!)
    const signed = own.map(({ ln }) => ln).sort((a, b) => a - b)
    yield `  ${what.padEnd(36)} ${figureNames[figure].padEnd(14)} median ${at(0.5)}  2/3 ${at(2 / 3)}  p90 ${at(0.9)}  bias ${percent(signed[signed.length >> 1]!)}  n ${own.length}${more(own)}`
  }
}

/**
 * Of every server: by composed operations alone, by its profile, and left out by GPU and by model.
 * The fits take minutes.
 */
export function* languageServerLines(): Generator<string> {
  yield 'Servers of language models, measured whole and simulated under the same load'
  const all: LeftOut[] = []
  for (const engine of llmEngineNames) {
    const rows = measuredServers(engine)
    const { order } = engineProfiles[engine]
    yield* errorLines(`${engine}: operations alone`, departures(rows, composedProfile(order)))
    yield* errorLines(`${engine}: its profile`, departures(rows, engineProfiles[engine]))
    for (const held of leftOut(engine)) {
      all.push(...held)
      const [{ by, group }] = held as [LeftOut]
      yield* errorLines(`${engine} without ${by === 'gpu' ? '' : 'model '}${group}`, held)
    }
  }
  for (const by of ['gpu', 'model'] as const) {
    const groups = new Set(all.filter((row) => row.by === by).map(({ group }) => group)).size
    for (const engine of llmEngineNames) {
      const own = all.filter((row) => row.by === by && row.row.engine === engine)
      const within = (rows: readonly Departure[]) =>
        `  ${coveredBy(rows as LeftOut[], own, groups)} within bars chosen on the other ${by}s`
      yield* errorLines(`${engine}, each ${by} left out`, own, within)
      yield `    bar: ${barOf(own, groups).toFixed(2)} (stated: ${engineErrors[engine][by === 'gpu' ? 'otherGpu' : 'otherModel']})`
    }
  }
  const others = pilotServers('held-out/llm-servers-itl').filter(({ users = 0 }) => users <= 32)
  yield* errorLines(
    'tgi: three models of no fit, to 32 users',
    departures(others, engineProfiles.tgi),
  )
  const nvidia = engineProfiles['tensorrt-llm']
  for (const model of ['llama-3.1-70b', 'llama-3.1-405b']) {
    const rows = throughputServers('held-out/llm-throughput').filter((row) => row.model === model)
    yield* errorLines(`tensorrt-llm: ${model} of no fit`, departures(rows, nvidia))
  }
  yield* errorLines('tensorrt-llm: weights scaled in blocks', departures(blockServers(), nvidia))
  for (const promptTokens of [0.8, 1, 1.2].map((factor) => factor * assumedPromptTokens))
    yield* errorLines(
      `tensorrt-llm: MLPerf v4.1, ${promptTokens} in`,
      departures(mlperfServers(promptTokens), nvidia),
    )
  for (const { row, figure, ln } of departures(mlperfServers(), nvidia))
    yield `    ${row.model} ${row.device.tensorParallel} ${row.device.gpu.name}, ${row.users} at once: ${figureNames[figure]} ${percent(ln)}`
}
