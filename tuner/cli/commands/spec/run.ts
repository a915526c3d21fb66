/**
 * `tune spec`: writes deployment specs from a stored experiment, or patches the user's manifest.
 */

import { join } from 'node:path'
import { mismatchHeading, selectableServers } from '../../../../reports/figures.ts'
import { replaceAtomically, writeAtomically } from '../../../../reports/report/write-atomically.ts'
import { loadTarget, renderSpec, specTargets } from '../../../../reports/specs/index.ts'
import { patchManifests } from '../../../../reports/specs/patch/patch-manifests.ts'
import type { Serving } from '../../../../reports/specs/serving.ts'
import {
  autoscalers,
  kserveVariants,
  type SpecFile,
  type SpecOptions,
} from '../../../../reports/specs/target.ts'
import { gpuSchemes } from '../../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { findSecrets, redactSecrets } from '../../../../trials/secrets.ts'
import { applyOwnPod } from '../../../artifacts/own-pod.ts'
import { type DeployOptions, resolveServing } from '../../../artifacts/serving.ts'
import { renderStageSpecs } from '../../../artifacts/stage-servings.ts'
import { parseCount, parseRateRps, parseShare } from '../../../config/values/units.ts'
import { createUsageError, exitCodes, UserError } from '../../../exit-codes.ts'
import { readGivenFile } from '../../../given-file.ts'
import { requireWritableFiles, requireWritableFolder } from '../../../writable-paths.ts'
import { parseChoice } from '../command-options.ts'
import { chooseCandidate, type ReopenFlags, reopenExperiment } from '../reopen-experiment.ts'

export interface SpecFlags extends ReopenFlags {
  readonly target: string
  readonly trial?: string
  readonly out?: string
  readonly patch?: string
  readonly write?: boolean
  readonly container?: string
  readonly image?: string
  readonly modelUri?: string
  readonly modelVersion?: string
  readonly server?: string
  readonly gpuScheme?: string
  readonly autoscaler?: string
  readonly variant?: string
  readonly prometheus?: string
  readonly namespace?: string
  readonly tritonBackend?: string
  readonly importPath?: string
  readonly gpusPerNode?: string
  readonly tunerImage?: string
  readonly minReplicas?: string
  readonly maxReplicas?: string
}

/** @throws UserError for a secret in a value that specs would repeat */
function rejectSecrets({ modelUri, image, prometheus, tunerImage }: SpecFlags): void {
  for (const [flag, value] of Object.entries({
    '--model-uri': modelUri,
    '--image': image,
    '--prometheus': prometheus,
    '--tuner-image': tunerImage,
  })) {
    if (value === undefined || findSecrets(value).length === 0) continue
    const hint =
      'others can read specs: remove the secret, and pass it to the cluster as a Secret or a service account'
    throw new UserError(`${flag} contains a secret: ${redactSecrets(value)}`, hint, exitCodes.usage)
  }
}

/** Flags that apply to new specs only, not to --patch. */
const newSpecFlags: Readonly<Partial<Record<keyof SpecFlags, string>>> = {
  out: '--out',
  autoscaler: '--autoscaler',
  variant: '--variant',
  prometheus: '--prometheus',
  tritonBackend: '--triton-backend',
  importPath: '--import-path',
  gpusPerNode: '--gpus-per-node',
  namespace: '--namespace',
}

/** @throws UserError for a flag that would be ignored */
function rejectIgnoredFlags(flags: SpecFlags): void {
  if (flags.patch === undefined) {
    const only = flags.write ? '--write' : flags.container === undefined ? undefined : '--container'
    if (only !== undefined)
      throw createUsageError(
        `${only} applies only to --patch`,
        'set the manifest with --patch FILE',
      )
    return
  }
  for (const [name, flag] of Object.entries(newSpecFlags))
    if (flags[name as keyof SpecFlags] !== undefined)
      throw createUsageError(
        `${flag} does not apply to --patch, which sets tuned values in an existing manifest`,
        flag === '--out'
          ? '--write changes the file; without it the patch is printed'
          : `leave ${flag} out`,
      )
}

export async function spec(id: string | undefined, flags: SpecFlags): Promise<number> {
  const target = parseChoice(flags.target, specTargets, '--target')
  const variant =
    flags.variant === undefined
      ? undefined
      : parseChoice(flags.variant, kserveVariants, '--variant')
  const autoscaler =
    flags.autoscaler === undefined
      ? undefined
      : parseChoice(flags.autoscaler, autoscalers, '--autoscaler')
  const server =
    flags.server === undefined
      ? undefined
      : parseChoice(flags.server, ['custom', ...selectableServers] as const, '--server')
  const gpuScheme =
    flags.gpuScheme === undefined
      ? undefined
      : parseChoice(flags.gpuScheme, gpuSchemes, '--gpu-scheme')
  const count = (text: string | undefined) => (text === undefined ? undefined : parseCount(text, 1))
  rejectSecrets(flags)
  rejectIgnoredFlags(flags)
  if (flags.patch === undefined) requireWritableFolder('--out', flags.out)
  else if (flags.write) requireWritableFiles({ '--patch': flags.patch })
  const manifest =
    flags.patch === undefined
      ? undefined
      : readGivenFile(flags.patch, 'the manifest', '--patch', 'document', 'kept')
  // The demand sizes the replicas here; it does not rank the configurations.
  const { rps, headroom, ...view } = flags
  const reopened = await reopenExperiment(id, view)
  const { experiment, recommendation, trials, pricePerHour } = reopened
  const candidate = chooseCandidate(recommendation, flags.trial)
  const deployOptions: DeployOptions = {
    image: flags.image,
    demandRps: rps === undefined ? undefined : parseRateRps(rps),
    modelUri: flags.modelUri,
    modelVersion: flags.modelVersion,
    namespace: flags.namespace,
    headroom: headroom === undefined ? undefined : parseShare(headroom),
    gpuScheme,
    minReplicas: count(flags.minReplicas),
    maxReplicas: count(flags.maxReplicas),
  }
  const specOptions: SpecOptions = {
    autoscaler,
    variant,
    prometheus: flags.prometheus,
    importPath: flags.importPath,
    backend: flags.tritonBackend,
    gpusPerNode: count(flags.gpusPerNode),
    tunerImage: flags.tunerImage,
  }
  if (experiment.stages !== undefined) {
    rejectSinglePredictorFlags(flags)
    const { stages } = experiment
    const { image: _, modelUri: __, ...options } = deployOptions
    const stageOptions = parseStageOptions(
      flags,
      stages.map(({ name }) => name),
    )
    const input = { experiment, stages, recommendation, candidate, trials, pricePerHour }
    const file = await renderStageSpecs(target, { ...input, options, stageOptions }, specOptions)
    return writeSpecs([file], flags.out)
  }
  const resolved = resolveServing(experiment, recommendation, candidate, trials, {
    ...deployOptions,
    // Some targets imply a server; 'custom' is the measured one.
    server:
      server === 'custom'
        ? undefined
        : (server ?? (flags.patch === undefined ? (await loadTarget(target)).implies : undefined)),
  })
  const serving = applyOwnPod(experiment, resolved)
  if (flags.patch !== undefined) return patchManifest(serving, flags.patch, manifest!, flags)
  return writeSpecs(await renderSpec(target, serving, specOptions), flags.out)
}

/** @throws UserError for a flag that would apply to every stage of a pipeline */
function rejectSinglePredictorFlags(flags: SpecFlags): void {
  for (const [name, flag] of Object.entries(singlePredictorFlags))
    if (flags[name as keyof SpecFlags] !== undefined)
      throw createUsageError(
        `${flag} does not apply to a pipeline, whose stages differ`,
        `leave ${flag} out, and edit the specs of the stages`,
      )
}

const singlePredictorFlags: Readonly<Partial<Record<keyof SpecFlags, string>>> = {
  patch: '--patch',
  modelVersion: '--model-version',
  server: '--server',
  minReplicas: '--min-replicas',
  maxReplicas: '--max-replicas',
}

/** Images and weights of the stages: one for all, or STAGE=VALUE,STAGE=VALUE. */
function parseStageOptions(
  { image, modelUri }: SpecFlags,
  stages: readonly string[],
): ReadonlyMap<string, Pick<DeployOptions, 'image' | 'modelUri'>> {
  const images = parseStageValues('--image', image, stages)
  const modelUris = parseStageValues('--model-uri', modelUri, stages)
  return new Map(
    stages.map((stage) => [stage, { image: images.get(stage), modelUri: modelUris.get(stage) }]),
  )
}

/** @throws UserError for a name that no stage has */
function parseStageValues(
  flag: string,
  text: string | undefined,
  stages: readonly string[],
): ReadonlyMap<string, string> {
  if (text === undefined) return new Map()
  const stage = /^([a-z][a-z0-9-]*)=/.exec(text)?.[1]
  if (stage === undefined) return new Map(stages.map((name) => [name, text]))
  if (!stages.includes(stage))
    throw createUsageError(
      `${flag} ${text}: no stage is called ${stage}`,
      `stages: ${stages.join(', ')}`,
    )
  // Addresses may contain commas: one ends a value only before the name of a stage.
  const pairs = text.split(new RegExp(`,(?=(?:${stages.join('|')})=)`))
  return new Map(
    pairs.map((pair): [string, string] => {
      const end = pair.indexOf('=')
      return [pair.slice(0, end), pair.slice(end + 1)]
    }),
  )
}

/** Prints the files, or writes them to a folder and prints their paths. */
async function writeSpecs(files: readonly SpecFile[], out: string | undefined): Promise<number> {
  if (out === undefined) {
    process.stdout.write(
      files
        .map((file) => (files.length > 1 ? `# file: ${file.name}\n${file.text}` : file.text))
        .join('\n'),
    )
    return exitCodes.ok
  }
  for (const file of files) {
    const path = join(out, file.name)
    await writeAtomically(path, file.text)
    process.stdout.write(`${path}\n`)
  }
  return exitCodes.ok
}

async function patchManifest(
  serving: Serving,
  path: string,
  text: string,
  { container, write }: SpecFlags,
): Promise<number> {
  const patched = patchManifests(text, serving, { container, file: path })
  const report = (line: string) => process.stderr.write(`${line}\n`)
  report(`container: ${patched.container}`)
  for (const doubt of patched.figures.mismatches) report(`${mismatchHeading}: ${doubt}`)
  for (const { where, from, to } of patched.changes)
    report(
      `${where}: ${from === undefined ? 'added' : formatValue(from)} -> ${to === undefined ? 'removed' : formatValue(to)}`,
    )
  for (const value of patched.unappliedValues) report(`not set: ${value}`)
  for (const conflict of patched.conflicts) report(`stays: ${conflict}`)
  if (patched.changes.length === 0) report(`${path}: nothing to change`)
  if (!write) process.stdout.write(patched.text)
  else if (patched.changes.length > 0) await replaceAtomically(path, patched.text)
  return exitCodes.ok
}

const formatValue = (value: unknown): string => redactSecrets(JSON.stringify(value))
