/** `tune fleet`: packs several models onto GPUs. Launches nothing. */
import { existsSync, readdirSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { toHtml } from '../../../../reports/document/html.ts'
import { toMarkdown, toText } from '../../../../reports/document/markdown.ts'
import { renderSvg } from '../../../../reports/document/svg.ts'
import { renderFleet, toFleetJson } from '../../../../reports/fleet/fleet-blocks.ts'
import { type FleetPlan, planFleet } from '../../../../reports/fleet/fleet-plan.ts'
import type { FleetModel } from '../../../../reports/fleet/packing.ts'
import type { Demand } from '../../../../reports/plan/demand.ts'
import { writeAtomically } from '../../../../reports/report/write-atomically.ts'
import type { SpecTargetName } from '../../../../reports/specs/index.ts'
import { parseDurationMs } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { loadPriceBook } from '../../../problem/problem.ts'
import { requireWritableFiles, requireWritableFolder } from '../../../writable-paths.ts'
import { showStatusLine } from '../../render/columns.ts'
import { parseChoice } from '../command-options.ts'
import { type FleetModelEntry, readFleetFile } from './fleet-file.ts'
import { type FleetFiles, renderFleetFiles } from './fleet-files.ts'
import { type ModelSource, readModelSource } from './model-source.ts'

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
  // A name without an extension is a folder.
  const folder = flags.out !== undefined && extname(flags.out) === '' ? flags.out : undefined
  const form = flags.json
    ? '.json'
    : flags.out === undefined || folder !== undefined
      ? '.txt'
      : extname(flags.out).toLowerCase()
  const render = formats[form]
  if (!render)
    throw new UserError(
      `--out ${flags.out}: a fleet cannot be written as '${form}'`,
      'use .md, .html, .json, .txt, or a folder',
      exitCodes.usage,
    )
  const target = parseChoice(flags.target ?? 'kubernetes', clusterTargets, '--target')
  if (flags.target !== undefined && folder === undefined)
    throw new UserError(
      '--target needs an output folder for the manifests',
      'add a folder: --out fleet',
      exitCodes.usage,
    )
  if (folder === undefined) requireWritableFiles({ '--out': flags.out })
  else requireWritableFolder('--out', folder)
  const file = readFleetFile(flags.file, await loadPriceBook(flags.prices))
  const models: (FleetModel & {
    readonly demand: Demand
    readonly entry: FleetModelEntry
    readonly source: ModelSource
  })[] = []
  for (const entry of file.models) {
    const source = await readModelSource(entry, flags.db)
    const { name, demand } = entry
    models.push({ name, segments: source.segments, demand, entry, source })
  }
  const seconds = parseDurationMs(flags.solverTime) / 1000
  showStatusLine(`packing ${models.length} models, at most ${seconds} s`)
  const { kinds, headroom, timezone } = file
  const plan = await planFleet(models, kinds, headroom, seconds, timezone)
  showStatusLine('')
  const rendered: RenderedFleet = {
    plan,
    blocks: (chart) => renderFleet(plan, models, headroom, chart),
  }
  if (folder !== undefined)
    await writeFolder(folder, await renderFleetFiles(plan, file, models, target), rendered)
  const text = await render(rendered)
  if (flags.out === undefined || folder !== undefined) process.stdout.write(text)
  else {
    await writeAtomically(flags.out, text)
    process.stdout.write(`${flags.out}\n`)
  }
  return exitCodes.ok
}

/** Targets that can deploy any measured server. */
const clusterTargets = ['kubernetes', 'kserve'] as const satisfies readonly SpecTargetName[]

interface RenderedFleet {
  readonly plan: FleetPlan
  readonly blocks: (chart?: typeof renderSvg) => ReturnType<typeof renderFleet>
}

/** Report and manifests in one folder. */
async function writeFolder(
  folder: string,
  { files, skipped }: FleetFiles,
  renderedFleet: RenderedFleet,
): Promise<void> {
  const allFiles = [
    { path: 'fleet.html', text: await formats['.html']!(renderedFleet) },
    { path: 'fleet.json', text: await formats['.json']!(renderedFleet) },
    ...files,
  ]
  for (const { path, text } of allFiles) {
    await writeAtomically(join(folder, path), text)
    process.stderr.write(`${join(folder, path)}\n`)
  }
  for (const reason of skipped) process.stderr.write(`not written: ${reason}\n`)
  const writtenPaths = new Set(files.map(({ path }) => path))
  for (const sub of ['models', 'nodes', 'shared'])
    for (const name of existsSync(join(folder, sub)) ? readdirSync(join(folder, sub)) : [])
      if (
        ![...writtenPaths].some(
          (path) => path === join(sub, name) || path.startsWith(join(sub, name) + sep),
        )
      )
        process.stderr.write(
          `${join(folder, sub, name)} is left from an earlier run and is not part of this fleet\n`,
        )
}

const formats: Readonly<Record<string, (found: RenderedFleet) => Promise<string>>> = {
  '.txt': async ({ blocks }) => toText(await blocks()),
  '.md': async ({ blocks }) => toMarkdown(await blocks()),
  '.html': async ({ blocks }) => toHtml('tune: fleet', await blocks(renderSvg)),
  '.json': async ({ plan }) => toFleetJson(plan),
}
