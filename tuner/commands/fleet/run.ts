/**
 * `tune fleet`: a packing of several models onto GPUs. Runs nothing but what `--measure-pairs` has
 * measured.
 */
import { existsSync, readdirSync } from 'node:fs'
import { extname, join, resolve, sep } from 'node:path'
import { fleetBlocks, fleetJson } from '../../../reports/fleet/fleet-blocks.ts'
import { type FleetPlan, planFleet } from '../../../reports/fleet/fleet-plan.ts'
import { interferenceOf, type MeasuredSlowdown } from '../../../reports/fleet/interference.ts'
import { type MeasuredPair, readPairs, withPairs } from '../../../reports/fleet/measured-pairs.ts'
import type { FleetModel } from '../../../reports/fleet/packing.ts'
import type { Rules } from '../../../reports/fleet/rules.ts'
import { percent, writing } from '../../../reports/format.ts'
import type { Demand } from '../../../reports/plan/demand.ts'
import type { Block } from '../../../reports/report/document/blocks.ts'
import { toHtml } from '../../../reports/report/document/html.ts'
import { toMarkdown, toText } from '../../../reports/report/document/markdown.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import type { SpecTargetName } from '../../../reports/specs/index.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { parseDurationMs } from '../../experiment/units.ts'
import { givenText } from '../../given-file.ts'
import { loadPriceBook } from '../../loop/problem.ts'
import { sayInPassing } from '../../render/passing-line.ts'
import { interruptible } from '../../signals.ts'
import { mustBeWritable, mustTakeFiles } from '../../writable-places.ts'
import { oneOf } from '../one-of.ts'
import { type FleetFile, type FleetModelEntry, readFleetFile } from './fleet-file.ts'
import { type FleetFiles, fleetFiles } from './fleet-files.ts'
import { type ModelSource, openSource, turningOf } from './model-source.ts'

export interface FleetFlags {
  readonly file: string
  readonly prices?: string
  readonly solverTime: string
  readonly out?: string
  readonly target?: string
  readonly json?: boolean
  readonly measurePairs?: string
  readonly db: string
}

export async function fleet(flags: FleetFlags): Promise<number> {
  // What has no ending is a folder.
  const folder = flags.out !== undefined && extname(flags.out) === '' ? flags.out : undefined
  const form = flags.json
    ? '.json'
    : flags.out === undefined || folder !== undefined
      ? '.txt'
      : extname(flags.out).toLowerCase()
  const render = forms[form]
  if (!render)
    throw new UserError(
      `--out ${flags.out}: no fleet ends in '${form}'`,
      'one of .md, .html, .json, .txt, or a folder',
      exitCodes.usage,
    )
  const target = oneOf(flags.target ?? 'kubernetes', clusterTargets, '--target')
  if (flags.target !== undefined && folder === undefined)
    throw new UserError(
      '--target says how deployments are written, and none are',
      'name a folder: --out fleet',
      exitCodes.usage,
    )
  mustBeWritable({ '--measure-pairs': flags.measurePairs })
  if (folder === undefined) mustBeWritable({ '--out': flags.out })
  else mustTakeFiles('--out', folder)
  const file = readFleetFile(flags.file, await loadPriceBook(flags.prices))
  const models: (FleetModel & {
    readonly demand: Demand
    readonly entry: FleetModelEntry
    readonly source: ModelSource
  })[] = []
  for (const entry of file.models) {
    const source = await openSource(entry, flags.db, file)
    const { reopened: _, byClass: __, ...known } = source
    const turning = turningOf(entry, source)
    models.push({
      ...known,
      name: entry.name,
      demand: entry.demand,
      ...(turning && { turning }),
      entry,
      source,
    })
  }
  const seconds = parseDurationMs(flags.solverTime) / 1000
  sayInPassing(`packing ${models.length} models, ${seconds} s at most`)
  const packed = (rules: Rules) =>
    planFleet(models, file.kinds, file.headroom, seconds, file.timezone, rules)
  const plan =
    flags.measurePairs === undefined
      ? await packed(file.rules)
      : await packedAsMeasured(flags.measurePairs, file, packed)
  if (plan === 'interrupted') return exitCodes.interrupted
  sayInPassing('')
  const found: Found = {
    plan,
    models,
    blocks: (pictured) => fleetBlocks(plan, models, file.headroom, pictured),
  }
  if (folder !== undefined)
    await handOver(folder, await fleetFiles(plan, file, models, target), found)
  const text = render(found)
  if (flags.out === undefined || folder !== undefined) process.stdout.write(text)
  else {
    await writeAtomically(flags.out, text)
    process.stdout.write(`${flags.out}\n`)
  }
  return exitCodes.ok
}

/** Seconds of each load: some hundred batches. */
const pairSeconds = 5

/**
 * Packed with the pairs that are in the file; those that this packing rests on are measured and
 * added, and it is packed once more.
 */
async function packedAsMeasured(
  path: string,
  file: FleetFile,
  packed: (rules: Rules) => Promise<FleetPlan>,
): Promise<FleetPlan | 'interrupted'> {
  const textOf = () =>
    existsSync(path) ? givenText(path, 'the measured pairs', '--measure-pairs', 'data') : undefined
  const text = textOf()
  withPairs(text, path, []) // What cannot be added to is told before anything is measured.
  const own =
    file.pairs === undefined || file.pairs.path === resolve(path) ? [] : file.pairs.measured
  const known = [...own, ...(text === undefined ? [] : readPairs(text, path))]
  const knowing = (pairs: readonly MeasuredSlowdown[]): Rules => ({
    ...file.rules,
    ...(pairs.length > 0 && { slows: interferenceOf(pairs) }),
  })
  const plan = await packed(knowing(known))
  const { signal, dispose } = interruptible(() => process.stderr.write('stopping\n'))
  try {
    const { measurePairs } = await import('./measure-pairs.ts')
    const keep = async (pairs: readonly MeasuredPair[]) => {
      sayInPassing('')
      await writeAtomically(path, withPairs(textOf(), path, pairs))
      for (const pair of pairs) process.stderr.write(`${pairSaid(pair)}\n`)
    }
    const found = await measurePairs({
      atPeaks: plan.atPeaks,
      models: file.models,
      seconds: pairSeconds,
      signal,
      say: sayInPassing,
      keep,
    })
    if (found.length > 0) return packed(knowing([...known, ...found]))
    process.stderr.write(
      'nothing to measure: no models share a GPU by MPS here whose slowdown is not known\n',
    )
    return plan
  } catch (error) {
    if (signal.aborted) return 'interrupted'
    throw error
  } finally {
    sayInPassing('')
    dispose()
  }
}

const pairSaid = ({
  kind,
  model,
  others,
  each,
  aloneMs,
  besideMs,
  slowdown,
  emulated,
}: MeasuredPair): string =>
  `${model} beside ${others.join(' and ')} on ${kind}${emulated ? ' (emulated)' : ''}: ${each === 'batch' ? 'a batch takes' : 'an answer comes every'} ${writing.latency(aloneMs)} alone, ${writing.latency(besideMs)} there, ${percent(slowdown - 1)} slower`

/** Targets of a cluster that deploy whatever was measured. */
const clusterTargets = ['kubernetes', 'kserve'] as const satisfies readonly SpecTargetName[]

interface Found {
  readonly plan: FleetPlan
  readonly models: readonly FleetModel[]
  /** @param pictured with every GPU drawn */
  readonly blocks: (pictured?: boolean) => readonly Block[]
}

/** Everything in one folder: what is said of the fleet, and what is applied. */
async function handOver(
  folder: string,
  { files, leftOut }: FleetFiles,
  found: Found,
): Promise<void> {
  const all = [
    { path: 'fleet.html', text: forms['.html']!(found) },
    { path: 'fleet.json', text: forms['.json']!(found) },
    ...files,
  ]
  for (const { path, text } of all) {
    await writeAtomically(join(folder, path), text)
    process.stderr.write(`${join(folder, path)}\n`)
  }
  for (const left of leftOut) process.stderr.write(`not written: ${left}\n`)
  const written = new Set(files.map(({ path }) => path))
  for (const sub of ['models', 'nodes', 'turns'])
    for (const name of existsSync(join(folder, sub)) ? readdirSync(join(folder, sub)) : [])
      if (
        ![...written].some(
          (path) => path === join(sub, name) || path.startsWith(join(sub, name) + sep),
        )
      )
        process.stderr.write(
          `${join(folder, sub, name)} is not of this fleet: it was there before\n`,
        )
}

const forms: Readonly<Record<string, (found: Found) => string>> = {
  '.txt': ({ blocks }) => toText(blocks()),
  '.md': ({ blocks }) => toMarkdown(blocks()),
  '.html': ({ blocks }) => toHtml('tune: fleet', blocks(true)),
  '.json': ({ plan, models }) => fleetJson(plan, models),
}
