/** `tune fleet`: a packing of several models onto GPUs. Runs nothing. */
import { existsSync, readdirSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { fleetBlocks, fleetJson } from '../../../reports/fleet/fleet-blocks.ts'
import { type FleetPlan, planFleet } from '../../../reports/fleet/fleet-plan.ts'
import type { FleetModel } from '../../../reports/fleet/packing.ts'
import type { Demand } from '../../../reports/plan/demand.ts'
import type { Block } from '../../../reports/report/document/blocks.ts'
import { toHtml } from '../../../reports/report/document/html.ts'
import { toMarkdown, toText } from '../../../reports/report/document/markdown.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import type { SpecTargetName } from '../../../reports/specs/index.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { parseDurationMs } from '../../experiment/units.ts'
import { loadPriceBook } from '../../loop/problem.ts'
import { mustBeWritable, mustTakeFiles } from '../../writable-places.ts'
import { oneOf } from '../one-of.ts'
import { type FleetModelEntry, readFleetFile } from './fleet-file.ts'
import { type FleetFiles, fleetFiles } from './fleet-files.ts'
import { type ModelSource, openSource } from './model-source.ts'

export interface FleetFlags {
  readonly file: string
  readonly prices?: string
  readonly solverTime: string
  readonly out?: string
  readonly target?: string
  readonly json?: boolean
  readonly db: string
}

export async function fleet(flags: FleetFlags): Promise<number> {
  // What has no ending is a folder.
  const folder = flags.out !== undefined && extname(flags.out) === '' ? flags.out : undefined
  const form = flags.json ? '.json' : flags.out === undefined || folder !== undefined ? '.txt' : extname(flags.out).toLowerCase()
  const render = forms[form]
  if (!render)
    throw new UserError(`--out ${flags.out}: no fleet ends in '${form}'`, 'one of .md, .html, .json, .txt, or a folder', exitCodes.usage)
  const target = oneOf(flags.target ?? 'kubernetes', clusterTargets, '--target')
  if (flags.target !== undefined && folder === undefined)
    throw new UserError('--target says how deployments are written, and none are', 'name a folder: --out fleet', exitCodes.usage)
  if (folder === undefined) mustBeWritable({ '--out': flags.out })
  else mustTakeFiles('--out', folder)
  const file = readFleetFile(flags.file, await loadPriceBook(flags.prices))
  const models: (FleetModel & { readonly demand: Demand; readonly entry: FleetModelEntry; readonly source: ModelSource })[] = []
  for (const entry of file.models) {
    const source = await openSource(entry, flags.db)
    models.push({ name: entry.name, demand: entry.demand, segments: source.segments, entry, source })
  }
  const plan = await planFleet(models, file.kinds, file.headroom, parseDurationMs(flags.solverTime) / 1000, file.timezone)
  const blocks = (pictured?: boolean) =>
    fleetBlocks(
      plan,
      models.map(({ name }) => name),
      file.headroom,
      pictured,
    )
  if (folder !== undefined) await handOver(folder, await fleetFiles(plan, file, models, target), plan, blocks)
  const text = render(plan, blocks)
  if (flags.out === undefined || folder !== undefined) process.stdout.write(text)
  else {
    await writeAtomically(flags.out, text)
    process.stdout.write(`${flags.out}\n`)
  }
  return exitCodes.ok
}

/** Targets whose deployments ask for GPUs in a cluster. */
const clusterTargets = ['kubernetes', 'kserve', 'seldon', 'kubedl'] as const satisfies readonly SpecTargetName[]

/** Everything in one folder: what is said of the fleet, and what is applied. */
async function handOver(
  folder: string,
  { files, leftOut }: FleetFiles,
  plan: FleetPlan,
  blocks: (pictured?: boolean) => readonly Block[],
): Promise<void> {
  const all = [
    { path: 'fleet.html', text: forms['.html']!(plan, blocks) },
    { path: 'fleet.json', text: forms['.json']!(plan, blocks) },
    ...files,
  ]
  for (const { path, text } of all) {
    await writeAtomically(join(folder, path), text)
    process.stderr.write(`${join(folder, path)}\n`)
  }
  for (const left of leftOut) process.stderr.write(`not written: ${left}\n`)
  const written = new Set(files.map(({ path }) => path))
  for (const sub of ['models', 'nodes'])
    for (const name of existsSync(join(folder, sub)) ? readdirSync(join(folder, sub)) : [])
      if (![...written].some((path) => path === join(sub, name) || path.startsWith(join(sub, name) + sep)))
        process.stderr.write(`${join(folder, sub, name)} is not of this fleet: it was there before\n`)
}

const forms: Readonly<Record<string, (plan: FleetPlan, blocks: (pictured?: boolean) => readonly Block[]) => string>> = {
  '.txt': (_, blocks) => toText(blocks()),
  '.md': (_, blocks) => toMarkdown(blocks()),
  '.html': (_, blocks) => toHtml('tune: fleet', blocks(true)),
  '.json': (plan) => fleetJson(plan),
}
