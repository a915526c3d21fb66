/**
 * What runs today, as a fleet file says it: replicas of models, taken as standing on as few GPUs as
 * their slices fit on.
 */
import { z } from 'zod'
import { type Block, blocksOf } from '../../../reports/fleet/migration-places.ts'
import {
  bestPerSlice,
  FleetError,
  type FleetModel,
  type PackedGpu,
  whole,
} from '../../../reports/fleet/packing.ts'
import type { Gpu } from '../../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../../trials/devices/mig.ts'
import { fitTogether, partitionsOf } from '../../../trials/devices/mig-placements.ts'

const entry = (gpu: z.ZodType<Gpu>) =>
  z.strictObject({
    gpu,
    slice: z.string().min(1).default(whole),
    /** Whole GPUs of one replica. */
    gpus: z.number().int().min(1).max(64).default(1),
    replicas: z.number().int().min(1).max(1000),
    rate: z.number().positive().optional(),
  })
export type TodayEntry = z.output<ReturnType<typeof entry>>

/** @param gpu reads a name of the catalogue */
export const todaySchema = (gpu: z.ZodType<Gpu>) =>
  z.record(z.string(), z.union([entry(gpu).transform((one) => [one]), z.array(entry(gpu)).min(1)]))

/**
 * @param models with what was measured of them, for replicas whose rate is not said
 * @throws FleetError for a model that is none of the fleet, a slice that its GPU has not, and a
 * rate that nobody knows
 */
export function todayBlocks(
  today: Readonly<Record<string, readonly TodayEntry[]>>,
  models: readonly FleetModel[],
): Block[] {
  const gpus: PackedGpu[] = []
  const slices: {
    readonly gpu: Gpu
    readonly slot: PackedGpu['slots'][number]
    readonly size: number
  }[] = []
  for (const [name, entries] of Object.entries(today)) {
    const model = models.find((one) => one.name === name)
    if (model === undefined)
      throw new FleetError(
        `today: ${name} is no model of this fleet`,
        `its models: ${models.map((one) => one.name).join(', ')}`,
      )
    for (const { gpu, slice, gpus: each, replicas, rate } of entries) {
      const profile = migProfilesOf(gpu).find((one) => one.name === slice)
      if (slice !== whole && (profile === undefined || each > 1))
        throw new FleetError(
          `today: ${name}: a ${gpu.name} has no slice '${slice}'${each > 1 ? ' over several GPUs' : ''}`,
          `it has ${[whole, ...migProfilesOf(gpu).map((one) => one.name)].join(', ')}`,
        )
      const rateRps = rate ?? measuredRate(model, gpu, slice, each)
      const slot = {
        slice,
        model: name,
        segment: { gpu: gpu.name, slice, gpus: each, rateRps, label: '' },
      }
      if (profile === undefined)
        gpus.push(
          ...Array.from({ length: replicas * each }, () => ({ kind: gpu.name, slots: [slot] })),
        )
      else
        slices.push(
          ...Array.from({ length: replicas }, () => ({ gpu, slot, size: profile.memoryFraction })),
        )
    }
  }
  const cut: { readonly gpu: Gpu; readonly slots: PackedGpu['slots'][number][] }[] = []
  for (const { gpu, slot } of slices.sort((a, b) => b.size - a.size)) {
    const open = cut.find(
      (one) =>
        one.gpu.name === gpu.name &&
        fitTogether(partitionsOf(gpu), [...one.slots.map(({ slice }) => slice), slot.slice]),
    )
    if (open) open.slots.push(slot)
    else cut.push({ gpu, slots: [slot] })
  }
  return blocksOf([...gpus, ...cut.map(({ gpu, slots }) => ({ kind: gpu.name, slots }))])
}

function measuredRate(model: FleetModel, gpu: Gpu, slice: string, gpus: number): number {
  const kind = { name: gpu.name, pricePerHour: 0, partitions: [[slice]] }
  const known = bestPerSlice(model, [kind]).find((segment) => segment.gpus === gpus)
  if (known) return known.rateRps
  throw new FleetError(
    `today: what a replica of ${model.name} carries on ${slice === whole ? '' : `${slice} of `}${gpu.name} was not measured`,
    'say it: rate: 120',
  )
}
