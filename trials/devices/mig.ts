/**
 * Multi-Instance GPU (MIG) profiles with their memory and multiprocessors. Sources: NVIDIA MIG user
 * guide, "Supported MIG profiles" (A30, A100); `nvidia-smi mig -lgip` of an H100 80GB as printed at
 * jbarrow.ai/field_notes/nvidia-mig; slices of H200, H20, GH200 and Blackwell have the memory in
 * their names and proportional multiprocessors.
 */
import type { Gpu } from './catalogue.ts'
import { DeviceModelError } from './device-model-error.ts'

export interface MigProfile {
  /** '1g.5gb' */
  readonly name: string
  /** Part of the GPU's memory and of its bandwidth, 0-1. */
  readonly memoryFraction: number
  /** Part of the compute slices, 0-1. */
  readonly computeFraction: number
  readonly multiprocessors: number
  readonly memoryMiB: number
  /** How many of these fit on one GPU. */
  readonly maxInstances: number
}

const profile = (
  name: string,
  memory: number,
  compute: number,
  multiprocessors: number,
  gib: number,
  maxInstances: number,
): MigProfile => ({
  name,
  memoryFraction: memory,
  computeFraction: compute,
  multiprocessors,
  memoryMiB: Math.round(gib * 1024),
  maxInstances,
})

const createA100Profiles = (
  gib: number,
  [small, double, half, whole]: readonly [number, number, number, number],
): MigProfile[] => [
  profile(`1g.${gib / 8}gb`, 1 / 8, 1 / 7, 14, small, 7),
  profile(`1g.${gib / 4}gb`, 1 / 4, 1 / 7, 14, double, 4),
  profile(`2g.${gib / 4}gb`, 1 / 4, 2 / 7, 28, double, 3),
  profile(`3g.${gib / 2}gb`, 1 / 2, 3 / 7, 42, half, 2),
  profile(`4g.${gib / 2}gb`, 1 / 2, 4 / 7, 56, half, 1),
  profile(`7g.${gib}gb`, 1, 1, 98, whole, 1),
]
/**
 * @param multiprocessors of the whole GPU; the printed list is that of 132, others' slices are
 * taken in proportion
 */
const createHopperProfiles = (
  multiprocessors: number,
  names: readonly [string, string, string, string],
  [small, double, half, whole]: readonly [number, number, number, number],
): MigProfile[] => {
  const scale = (printed: number) => Math.round((printed * multiprocessors) / 132)
  return [
    profile(`1g.${names[0]}`, 1 / 8, 1 / 7, scale(16), small, 7),
    profile(`1g.${names[1]}`, 1 / 4, 1 / 7, scale(26), double, 4),
    profile(`2g.${names[1]}`, 1 / 4, 2 / 7, scale(32), double, 3),
    profile(`3g.${names[2]}`, 1 / 2, 3 / 7, scale(60), half, 2),
    profile(`4g.${names[2]}`, 1 / 2, 4 / 7, scale(64), half, 1),
    profile(`7g.${names[3]}`, 1, 1, multiprocessors, whole, 1),
  ]
}
/** Profiles whose memory is known from their names alone. */
const createNominalProfiles = (
  multiprocessors: number,
  [small, double, half, whole]: readonly [number, number, number, number],
): MigProfile[] =>
  createHopperProfiles(
    multiprocessors,
    [`${small}gb`, `${double}gb`, `${half}gb`, `${whole}gb`],
    [0.96 * small, 0.96 * double, 0.98 * half, 0.99 * whole],
  )

const a100Of40 = createA100Profiles(40, [4.75, 9.75, 19.62, 39.5])
const a100Of80 = createA100Profiles(80, [9.75, 19.62, 39.5, 79.25])
const createH100Profiles = (multiprocessors: number) =>
  createHopperProfiles(
    multiprocessors,
    ['10gb', '20gb', '40gb', '80gb'],
    [9.75, 19.62, 39.5, 79.25],
  )

const h200 = createHopperProfiles(132, ['18gb', '35gb', '71gb', '141gb'], [16.75, 32.5, 69.5, 140])

const profiles: Readonly<Record<string, readonly MigProfile[]>> = {
  A30: [
    profile('1g.6gb', 1 / 4, 1 / 4, 14, 5.81, 4),
    profile('2g.12gb', 1 / 2, 1 / 2, 28, 11.69, 2),
    profile('4g.24gb', 1, 1, 56, 23.44, 1),
  ],
  'A100-40GB': a100Of40,
  'A100-PCIe-40GB': a100Of40,
  'A100-80GB': a100Of80,
  'A100-PCIe-80GB': a100Of80,
  H100: createH100Profiles(132),
  'H100-PCIe': createH100Profiles(114),
  'H100-NVL': createNominalProfiles(132, [12, 24, 47, 94]),
  GH200: createNominalProfiles(132, [12, 24, 48, 96]),
  H20: createNominalProfiles(78, [12, 24, 48, 96]),
  H200: h200,
  'H200-NVL': h200,
  'H20-3e': createHopperProfiles(78, ['18gb', '35gb', '71gb', '141gb'], [16.75, 32.5, 69.5, 140]),
  'GH200-144GB': createNominalProfiles(132, [18, 36, 72, 144]),
  B200: createNominalProfiles(148, [23, 45, 90, 180]),
  GB200: createNominalProfiles(152, [23, 47, 93, 186]),
  B300: createNominalProfiles(148, [34, 67, 135, 269]),
  GB300: createNominalProfiles(152, [35, 70, 139, 278]),
  'RTX-PRO-6000': [
    profile('1g.24gb', 1 / 4, 1 / 4, 46, 23.6, 4),
    profile('2g.48gb', 1 / 2, 1 / 2, 94, 47.4, 2),
    profile('4g.96gb', 1, 1, 188, 95, 1),
  ],
}

/** Lists the MIG profiles of a GPU; empty if it has none or they are unknown. */
export const listMigProfiles = (gpu: Gpu): readonly MigProfile[] => profiles[gpu.name] ?? []

/**
 * Finds a MIG profile by its name, e.g. '1g.5gb'.
 * @throws DeviceModelError when the GPU has no MIG or no such profile, listing those it has.
 */
export function findMigProfile(gpu: Gpu, name: string): MigProfile {
  const match = matchMigProfile(gpu, name)
  if (match) return match
  const migProfiles = listMigProfiles(gpu)
  if (migProfiles.length === 0)
    throw new DeviceModelError(
      `${gpu.name} has no MIG profiles`,
      `GPUs with MIG: ${Object.keys(profiles).join(', ')}`,
    )
  throw new DeviceModelError(
    `${gpu.name} has no MIG profile '${name}'`,
    `it has ${migProfiles.map((p) => p.name).join(', ')}`,
  )
}

/**
 * Matches a MIG profile by its name; undefined if the GPU has none of that name. Tolerates drivers
 * that round the memory differently.
 */
export function matchMigProfile(gpu: Gpu, name: string): MigProfile | undefined {
  const migProfiles = listMigProfiles(gpu)
  const baseName = name.toLowerCase().replace(mediaSuffix, '')
  const [, parts, instance] = /^(?:(\d)c\.)?(.+)$/.exec(baseName) ?? []
  const match =
    migProfiles.find((p) => p.name === instance) ??
    migProfiles.find((p) => isSameProfile(p.name, instance))
  if (match && parts === undefined) return { ...match, name: name.toLowerCase() }
  const slices = Number(/^(\d)g/.exec(instance ?? '')?.[1])
  return match && Number(parts) <= slices
    ? divideSlice(match, name.toLowerCase(), Number(parts) / slices)
    : undefined
}

/**
 * Whether two names mean one profile ('7g.189gb' and 7g.186gb of a GB200): equal compute slices,
 * memory within 5 %.
 */
function isSameProfile(profileName: string, requestedName = ''): boolean {
  const [a, b] = [profileName, requestedName].map((name) =>
    /^(\d)g\.(\d+)gb$/.exec(name)?.slice(1).map(Number),
  )
  return (
    a !== undefined && b !== undefined && a[0] === b[0] && Math.abs(Math.log(a[1]! / b[1]!)) < 0.05
  )
}

/** Suffixes for media and graphics engines: '1g.10gb+me', '1g.24gb+gfx', '1g.5gb-me'. */
const mediaSuffix = /(\+me(\.all)?|-me|\+gfx)+$/

/**
 * A compute instance such as '1c.2g.10gb': part of a slice's compute; memory and bandwidth are
 * shared with its neighbours.
 */
const divideSlice = (slice: MigProfile, name: string, part: number): MigProfile => ({
  name,
  memoryFraction: slice.memoryFraction * part,
  computeFraction: slice.computeFraction * part,
  multiprocessors: Math.max(1, Math.round(slice.multiprocessors * part)),
  memoryMiB: Math.round(slice.memoryMiB * part),
  maxInstances: Math.round(slice.maxInstances / part),
})

/**
 * Computes the share of a GPU that a slice occupies and is priced at: the larger of its compute and
 * memory fractions.
 */
export const computePaidFraction = (slice: MigProfile): number =>
  Math.max(slice.memoryFraction, slice.computeFraction)
