/**
 * Compares the MIG layout that is configured for a node (label nvidia.com/mig.config) with possible
 * and actual layouts.
 */
import type { V1Node } from '@kubernetes/client-node'
import { gpuCatalogue } from '../../../devices/catalogue.ts'
import { listMigProfiles } from '../../../devices/mig.ts'
import { parseQuantity } from '../api/quantity.ts'
import { findGpuByProduct } from './gpu-names.ts'

const configLabel = 'nvidia.com/mig.config'
/** State reported by the MIG manager: pending, rebooting, success, failed. */
const stateLabel = 'nvidia.com/mig.config.state'

/** Faults of the nodes' MIG slices, a sentence each; custom layouts are not checked. */
export const listMigFaults = (nodes: readonly V1Node[]): string[] =>
  nodes.flatMap((node) => findMigFault(node) ?? [])

function findMigFault({ metadata, status }: V1Node): string | undefined {
  const labels = metadata?.labels ?? {}
  const config = labels[configLabel]
  if (config === undefined || config === 'all-disabled') return undefined
  const prefix = `node ${metadata?.name}: ${configLabel}=${config}`
  const state = labels[stateLabel]
  if (state !== undefined && state !== 'success')
    return `${prefix} is ${state}${state === 'failed' ? ": see the log of NVIDIA's MIG manager" : ', and its slices are not there yet'}`
  const impossibility = explainImpossibleLayout(labels, config)
  if (impossibility !== undefined) return `${prefix}: ${impossibility}`
  const profile = parseProfile(config)
  if (profile === undefined || findNodeGpu(labels) === undefined) return undefined
  const isAdvertised = Object.entries(status?.allocatable ?? {}).some(
    ([resource, amount]) =>
      (resource === `nvidia.com/mig-${profile}` || resource === 'nvidia.com/gpu') &&
      parseQuantity(amount) > 0,
  )
  return isAdvertised
    ? undefined
    : `${prefix}: the device plugin offers no such slice (its MIG strategy may be none)`
}

/** Parses the profile of the operator's uniform layouts, such as all-1g.5gb. */
const parseProfile = (layout: string): string | undefined => /^all-(\d+g\.\d+gb)$/.exec(layout)?.[1]

type Labels = Readonly<Record<string, string>>

function findNodeGpu(labels: Labels) {
  const product = labels['nvidia.com/gpu.product']?.replace(/-MIG-.*$/, '')
  const name = product === undefined ? undefined : findGpuByProduct(product)
  return gpuCatalogue.find((one) => one.name === name)
}

/** Why the GPUs of a node cannot have this layout; undefined if they can, or if unknown. */
function explainImpossibleLayout(labels: Labels, layout: string): string | undefined {
  const [profile, gpu] = [parseProfile(layout), findNodeGpu(labels)]
  if (profile === undefined || gpu === undefined) return undefined
  const profiles = listMigProfiles(gpu).map((one) => one.name)
  if (profiles.includes(profile)) return undefined
  return `a ${gpu.name} has no such slice${profiles.length > 0 ? `; it has ${profiles.join(', ')}` : ''}`
}
