/**
 * The GPUs of this machine as an experiment may hold them, and the parameters that choose among
 * them.
 */
import { findVendor, type Gpu, gpuCatalogue } from '../../trials/devices/catalogue.ts'
import { listMigProfiles, matchMigProfile } from '../../trials/devices/mig.ts'
import { findCatalogueName, type ShareBound } from '../../trials/machine/gpu-offer.ts'
import { visibilityVariables } from '../../trials/machine/visible-gpus.ts'
import type { Report } from './context.ts'
import type { ParameterEntry } from './schema/experiment-schema.ts'
import type { MachineFacts } from './types.ts'

/** The GPUs of one model that are here. */
export interface GpuOffer {
  /** The catalogue's or the user's own name; the driver's for one that neither knows. */
  readonly name: string
  /** Those that a trial may hold whole. */
  readonly wholes: number
  /** MIG profiles of which slices are made, each once. */
  readonly slices: readonly string[]
  /** Those that the catalogue does not know of it, where there is something else to hold. */
  readonly unknownSlices: readonly string[]
}

export function gpusHere({ gpus, slices = [] }: MachineFacts, ownGpus: readonly Gpu[]): GpuOffer[] {
  const called = (name: string) => findCatalogueName(name, ownGpus)
  const names = [...new Set([...gpus, ...slices.map(({ gpu }) => gpu)].map(called))]
  return names.map((name) => {
    const wholes = gpus.filter((gpu) => called(gpu) === name).length
    const made = [
      ...new Set(slices.flatMap(({ gpu, profile }) => (called(gpu) === name ? [profile] : []))),
    ]
    const model = [...ownGpus, ...gpuCatalogue].find((gpu) => gpu.name === name)
    const known = made.filter((profile) => model === undefined || matchMigProfile(model, profile))
    // Without anything else they stand in the space, and are refused there.
    return wholes + known.length === 0
      ? { name, wholes, slices: made, unknownSlices: [] }
      : {
          name,
          wholes,
          slices: known,
          unknownSlices: made.filter((profile) => !known.includes(profile)),
        }
  })
}

export const isKnownGpu = (name: string, ownGpus: readonly Gpu[]): boolean =>
  [...ownGpus, ...gpuCatalogue].some((gpu) => gpu.name === name)

/** Shares that are tried of a GPU, in %. */
const shares = [10, 25, 50, 100]

/**
 * The parameters that divide GPUs: MIG slices by the names of their profiles, shares where
 * something enforces them. None: whole GPUs alone.
 * @param offers undefined: the GPUs are not this machine's, and may be divided as the model or the
 * cluster does
 */
export function divisions(
  offers: readonly GpuOffer[] | undefined,
  bound: ShareBound | undefined,
): Record<string, ParameterEntry> {
  if (offers === undefined) return { gpuMemoryPercent: { values: shares } }
  const profiles = [...new Set(offers.flatMap(({ slices }) => slices))]
  const anyWhole = offers.some(({ wholes }) => wholes > 0)
  const sliced = profiles.length > 0
  return {
    ...(sliced && { migProfile: { values: [...(anyWhole ? ['none'] : []), ...profiles] } }),
    ...(anyWhole &&
      bound !== undefined && {
        gpuMemoryPercent: { values: shares, ...(sliced && { when: "migProfile == 'none'" }) },
      }),
  }
}

/** Conditions that keep GPUs and slices together that are here together. */
export function pairings(
  offers: readonly GpuOffer[],
  gpus: readonly string[],
  profiles: readonly string[],
): string[] {
  if (gpus.length < 2) return []
  return offers
    .filter(({ name }) => gpus.includes(name))
    .flatMap(({ name, wholes, slices }) =>
      profiles
        .filter((profile) => (profile === 'none' ? wholes === 0 : !slices.includes(profile)))
        .map((profile) => `not (gpu == '${name}' and migProfile == '${profile}')`),
    )
}

/**
 * Each trial is given its GPU: a predictor that chooses one itself would take another, at this
 * one's price.
 */
export function checkVisibility(report: Report, env: Readonly<Record<string, string>> = {}): void {
  for (const name of visibilityVariables.filter((variable) => Object.hasOwn(env, variable)))
    report(
      ['predictor', 'env', name],
      `${name}: tune assigns the GPU of each trial, and this would select another`,
      `to limit the GPUs that tune uses, set it for tune itself: ${name}=${env[name]} tune ...; to use none, add --devices cpu`,
    )
}

/**
 * What allows a share of such GPUs, for a hint. @param names as the driver or the catalogue calls
 * them
 */
export function shareHint(names: readonly string[]): string {
  const told =
    '${gpuMemoryFraction} in the command, env or a file passes a server its share of the memory'
  return names.every((name) => findVendor(name) === 'amd')
    ? told
    : `an MPS daemon (nvidia-cuda-mps-control -d) enforces shares of memory and threads; ${told}`
}

/**
 * What a reader must know of which GPUs are used here, and how they are divided.
 * @param about whether the space has shares, and whether the user says which GPUs to take
 */
export function divisionNotices(
  offers: readonly GpuOffer[],
  bound: ShareBound | undefined,
  { shared, asked }: { readonly shared: boolean; readonly asked: boolean },
  ownGpus: readonly Gpu[],
): string[] {
  const known = offers.filter(({ name }) => isKnownGpu(name, ownGpus))
  const unknown = known.length === 0 || asked ? [] : unknownNotices(offers, ownGpus)
  const leftOut = known.flatMap(({ name, unknownSlices }) =>
    unknownSlices.length > 0
      ? [
          `MIG ${unknownSlices.join(', ')} of ${name} is not used, because tune does not know this profile`,
        ]
      : [],
  )
  return [...unknown, ...leftOut, ...shareNotices(known, bound, shared, ownGpus)]
}

function shareNotices(
  offers: readonly GpuOffer[],
  bound: ShareBound | undefined,
  shared: boolean,
  ownGpus: readonly Gpu[],
): string[] {
  const wholes = offers.filter(({ wholes }) => wholes > 0)
  if (wholes.length === 0) return []
  if (bound === undefined) {
    const capable = wholes.filter(({ name }) =>
      [...ownGpus, ...gpuCatalogue].some(
        (gpu) => gpu.name === name && listMigProfiles(gpu).length > 0,
      ),
    )
    const mig =
      capable.length > 0
        ? `; MIG slices of ${capable.map(({ name }) => name).join(', ')} could be tuned by their names`
        : ''
    const names = wholes.map(({ name }) => name)
    return [
      `Only whole GPUs are tuned, because nothing on this machine enforces a share of ${names.join(', ')}. To tune shares: ${shareHint(names)}${mig}`,
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
export function reportUnknown(
  report: Report,
  driverNames: readonly string[],
  memoryMiB: MachineFacts['memoryMiB'] = {},
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

/** That a GPU is left out for want of a description, beside others that are known. */
const unknownNotices = (offers: readonly GpuOffer[], ownGpus: readonly Gpu[]): string[] =>
  offers
    .filter(({ name }) => !isKnownGpu(name, ownGpus))
    .map(
      ({ name }) =>
        `${name} is not used, because it is not in the catalogue; describe it with --gpu-catalogue FILE`,
    )
