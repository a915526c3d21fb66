/** `tune fleet`: a packing of several models onto GPUs. Runs nothing. */
import { extname } from 'node:path'
import { fleetBlocks, fleetJson } from '../../../reports/fleet/fleet-blocks.ts'
import { type FleetPlan, planFleet } from '../../../reports/fleet/fleet-plan.ts'
import { FleetError, type FleetModel, type Segment, whole } from '../../../reports/fleet/packing.ts'
import { readSegments } from '../../../reports/fleet/segment-table.ts'
import type { Demand } from '../../../reports/plan/demand.ts'
import { candidatesOf } from '../../../reports/recommendation/candidates.ts'
import type { Block } from '../../../reports/report/document/blocks.ts'
import { toHtml } from '../../../reports/report/document/html.ts'
import { toMarkdown, toText } from '../../../reports/report/document/markdown.ts'
import { writeAtomically } from '../../../reports/report/write-atomically.ts'
import { resourcesOf } from '../../../trials/resources.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { parseDurationMs } from '../../experiment/units.ts'
import { givenText } from '../../given-file.ts'
import { loadPriceBook } from '../../loop/problem.ts'
import { mustBeWritable } from '../../writable-places.ts'
import { reopen } from '../reopened.ts'
import { type FleetModelEntry, readFleetFile } from './fleet-file.ts'

export interface FleetFlags {
  readonly file: string
  readonly prices?: string
  readonly solverTime: string
  readonly out?: string
  readonly json?: boolean
  readonly db: string
}

export async function fleet(flags: FleetFlags): Promise<number> {
  const form = flags.json ? '.json' : flags.out === undefined ? '.txt' : extname(flags.out).toLowerCase()
  const render = forms[form]
  if (!render) throw new UserError(`--out ${flags.out}: no fleet ends in '${form}'`, 'one of .md, .html, .json, .txt', exitCodes.usage)
  mustBeWritable({ '--out': flags.out })
  const { kinds, models: entries, headroom } = readFleetFile(flags.file, await loadPriceBook(flags.prices))
  const models: (FleetModel & { readonly demand: Demand })[] = []
  for (const entry of entries) models.push({ name: entry.name, demand: entry.demand, segments: await segmentsOf(entry, flags.db) })
  const plan = await planFleet(models, kinds, headroom, parseDurationMs(flags.solverTime) / 1000)
  const text = render(plan, () =>
    fleetBlocks(
      plan,
      models.map(({ name }) => name),
      headroom,
    ),
  )
  if (flags.out === undefined) process.stdout.write(text)
  else {
    await writeAtomically(flags.out, text)
    process.stderr.write(`${flags.out}\n`)
  }
  return exitCodes.ok
}

const forms: Readonly<Record<string, (plan: FleetPlan, blocks: () => readonly Block[]) => string>> = {
  '.txt': (_, blocks) => toText(blocks()),
  '.md': (_, blocks) => toMarkdown(blocks()),
  '.html': (_, blocks) => toHtml('tune: fleet', blocks()),
  '.json': (plan) => fleetJson(plan),
}

async function segmentsOf({ name, table, gpu, sloMs, experiment }: FleetModelEntry, db: string): Promise<Segment[]> {
  if (table !== undefined) return readSegments(givenText(table, `the table of ${name}`, '--file', 'data'), table, gpu, sloMs)
  const { recommendation, experiment: reopened } = await reopen(experiment, { db, ...(sloMs !== undefined && { slo: `${sloMs}ms` }) })
  const segments = candidatesOf(recommendation).flatMap((candidate): Segment[] => {
    const { gpu: on, gpus, gpuShare, migProfile } = resourcesOf(candidate.configuration, {}, reopened.own.gpus)
    if (on === undefined || !candidate.feasible || candidate.capacityRps <= 0 || (gpuShare < 1 && migProfile === undefined)) return []
    return [{ gpu: on, slice: migProfile ?? whole, gpus, rateRps: candidate.capacityRps, label: candidate.label }]
  })
  if (segments.length > 0) return segments
  throw new FleetError(
    `experiment ${experiment} has no configuration of ${name} that serves on a whole GPU or a MIG slice`,
    'shares by MPS or time are not packed; measure whole GPUs, or migProfile',
  )
}
