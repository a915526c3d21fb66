/** GPUs of this machine that trials can use, and the parameters that choose among them. */
import { findVendor, type Gpu, gpuCatalogue } from '../../trials/devices/catalogue.ts'
import { listMigProfiles, matchMigProfile } from '../../trials/devices/mig.ts'
import { findCatalogueName, type ShareBound } from '../../trials/machine/gpu-offer.ts'
import { visibilityVariables } from '../../trials/machine/visible-gpus.ts'
import type { Report } from './context.ts'
import type { ParameterEntry } from './schema/parameter-schema.ts'
import type { MachineCapabilities } from './types.ts'

/** All GPUs of one model in this machine. */
export interface LocalGpu {
  /** Name in the catalogue or the user's file; the driver's name for an unknown model. */
  readonly name: string
  /** Number of GPUs that a trial can use whole. */
  readonly wholeCount: number
  /** Profiles of the existing MIG slices, each once. */
  readonly slices: readonly string[]
  /** Profiles that the catalogue does not know; left out if the model offers anything else. */
  readonly unknownSlices: readonly string[]
}

export function listLocalGpus(
  { gpus, slices = [] }: MachineCapabilities,
  ownGpus: readonly Gpu[],
): LocalGpu[] {
  const toCatalogueName = (name: string) => findCatalogueName(name, ownGpus)
  const names = [...new Set([...gpus, ...slices.map(({ gpu }) => gpu)].map(toCatalogueName))]
  return names.map((name) => {
    const wholeCount = gpus.filter((gpu) => toCatalogueName(gpu) === name).length
    const profiles = [
      ...new Set(
        slices.flatMap(({ gpu, profile }) => (toCatalogueName(gpu) === name ? [profile] : [])),
      ),
    ]
    const model = [...ownGpus, ...gpuCatalogue].find((gpu) => gpu.name === name)
    const knownProfiles = profiles.filter(
      (profile) => model === undefined || matchMigProfile(model, profile),
    )
    // If the model offers nothing else, unknown profiles stay, and checkMigProfiles reports them.
    return wholeCount + knownProfiles.length === 0
      ? { name, wholeCount, slices: profiles, unknownSlices: [] }
      : {
          name,
          wholeCount,
          slices: knownProfiles,
          unknownSlices: profiles.filter((profile) => !knownProfiles.includes(profile)),
        }
  })
}

export const isKnownGpu = (name: string, ownGpus: readonly Gpu[]): boolean =>
  [...ownGpus, ...gpuCatalogue].some((gpu) => gpu.name === name)

/** Shares of a GPU that are tried by default, %. */
const defaultSharesPercent = [10, 25, 50, 100]

/**
 * Lists the parameters that divide GPUs: MIG slices by profile, and shares if something enforces
 * them. Without either, trials use whole GPUs.
 * @param offers undefined for emulated and cluster GPUs, which can be divided freely
 */
export function listDivisionParameters(
  localGpus: readonly LocalGpu[] | undefined,
  bound: ShareBound | undefined,
): Record<string, ParameterEntry> {
  if (localGpus === undefined) return { gpuMemoryPercent: { values: defaultSharesPercent } }
  const profiles = [...new Set(localGpus.flatMap(({ slices }) => slices))]
  const anyWhole = localGpus.some(({ wholeCount }) => wholeCount > 0)
  const sliced = profiles.length > 0
  return {
    ...(sliced && { migProfile: { values: [...(anyWhole ? ['none'] : []), ...profiles] } }),
    ...(anyWhole &&
      bound !== undefined && {
        gpuMemoryPercent: {
          values: defaultSharesPercent,
          ...(sliced && { when: "migProfile == 'none'" }),
        },
      }),
  }
}

/** Conditions that exclude combinations of GPU and MIG profile which this machine does not have. */
export function buildMigConditions(
  localGpus: readonly LocalGpu[],
  gpus: readonly string[],
  profiles: readonly string[],
): string[] {
  if (gpus.length < 2) return []
  return localGpus
    .filter(({ name }) => gpus.includes(name))
    .flatMap(({ name, wholeCount, slices }) =>
      profiles
        .filter((profile) => (profile === 'none' ? wholeCount === 0 : !slices.includes(profile)))
        .map((profile) => `not (gpu == '${name}' and migProfile == '${profile}')`),
    )
}

/**
 * tune assigns the GPU of each trial. A predictor that selects another one would be measured at the
 * wrong price.
 */
export function checkGpuVisibility(
  report: Report,
  env: Readonly<Record<string, string>> = {},
): void {
  for (const name of visibilityVariables.filter((variable) => Object.hasOwn(env, variable)))
    report(
      ['predictor', 'env', name],
      `${name}: tune assigns the GPU of each trial, and this would select another`,
      `to limit the GPUs that tune uses, set it for tune itself: ${name}=${env[name]} tune ...; to use none, add --devices cpu`,
    )
}

/** Hint on how to enforce a share of these GPUs. */
export function formatShareHint(names: readonly string[]): string {
  const fractionHint =
    '${gpuMemoryFraction} in the command, env or a file passes a server its share of the memory'
  return names.every((name) => findVendor(name) === 'amd')
    ? fractionHint
    : `an MPS daemon (nvidia-cuda-mps-control -d) enforces shares of memory and threads; ${fractionHint}`
}

/**
 * Notices on which GPUs are used and how they are divided.
 * @param about whether the space has shares, and whether the user chose the GPUs
 */
export function describeGpuDivision(
  localGpus: readonly LocalGpu[],
  bound: ShareBound | undefined,
  { shared, asked }: { readonly shared: boolean; readonly asked: boolean },
  ownGpus: readonly Gpu[],
): string[] {
  const knownGpus = localGpus.filter(({ name }) => isKnownGpu(name, ownGpus))
  const unknown = knownGpus.length === 0 || asked ? [] : describeUnknownGpus(localGpus, ownGpus)
  const leftOut = knownGpus.flatMap(({ name, unknownSlices }) =>
    unknownSlices.length > 0
      ? [
          `MIG ${unknownSlices.join(', ')} of ${name} is not used, because tune does not know this profile`,
        ]
      : [],
  )
  return [...unknown, ...leftOut, ...describeGpuShares(knownGpus, bound, shared, ownGpus)]
}

function describeGpuShares(
  localGpus: readonly LocalGpu[],
  bound: ShareBound | undefined,
  shared: boolean,
  ownGpus: readonly Gpu[],
): string[] {
  const wholeCount = localGpus.filter(({ wholeCount }) => wholeCount > 0)
  if (wholeCount.length === 0) return []
  if (bound === undefined) {
    const capable = wholeCount.filter(({ name }) =>
      [...ownGpus, ...gpuCatalogue].some(
        (gpu) => gpu.name === name && listMigProfiles(gpu).length > 0,
      ),
    )
    const mig =
      capable.length > 0
        ? `; MIG slices of ${capable.map(({ name }) => name).join(', ')} could be tuned by their names`
        : ''
    const names = wholeCount.map(({ name }) => name)
    return [
      `Only whole GPUs are tuned, because nothing on this machine enforces a share of ${names.join(', ')}. To tune shares: ${formatShareHint(names)}${mig}`,
    ]
  }
  return bound === 'server' && shared
    ? [
        "Shares of a GPU limit only its memory, by the server's own limit: each trial had the whole compute of the GPU, which neighbours would share",
      ]
    : []
}

/**
 * @param driverNames of GPUs that neither the catalogue nor the user's file knows
 * @param memoryMiB of GPUs by those names, where the driver tells it
 */
export function reportUnknownGpus(
  report: Report,
  driverNames: readonly string[],
  memoryMiB: MachineCapabilities['memoryMiB'] = {},
): void {
  for (const name of driverNames) {
    const memoryGiB = Math.round((memoryMiB[name] ?? 24 * 1024) / 1024)
    report(
      ['gpuCatalogue'],
      `this machine's GPU '${name}' is not in the catalogue`,
      `describe it with --gpu-catalogue FILE, with the dense peaks of its datasheet: '${name}': {memoryGiB: ${memoryGiB}, bandwidthGBs: 900, peakTflops: {fp32: 40, fp16: 160}}, and price it with --prices FILE: gpus: {'${name}': 1.20}; or use no GPU: --devices cpu`,
    )
  }
}

/** Notices on GPUs that are left out because nothing describes them. */
const describeUnknownGpus = (localGpus: readonly LocalGpu[], ownGpus: readonly Gpu[]): string[] =>
  localGpus
    .filter(({ name }) => !isKnownGpu(name, ownGpus))
    .map(
      ({ name }) =>
        `${name} is not used, because it is not in the catalogue; describe it with --gpu-catalogue FILE`,
    )
