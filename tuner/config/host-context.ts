/** The facts about this machine that resolving an experiment needs. */
import { findGpuSupportFault, findMissingGguf } from '../../trials/launchers/builtin.ts'
import { findShareBound, isWhole } from '../../trials/machine/gpu-offer.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { HostContext } from './context.ts'

/**
 * What this machine offers: whole GPUs, MIG slices, what enforces GPU shares (`shareBound`), and
 * whether an engine of the built-in predictor can use the GPUs (`drivesGpus`).
 */
export function createHostContext(machine: MachineFacts): HostContext {
  const gpus = machine.gpus.filter(isWhole).map(({ name }) => name)
  const slices = machine.gpus.flatMap(({ name, migEnabled, migDevices, computeMode }) =>
    migEnabled && computeMode !== 'Prohibited'
      ? migDevices.map(({ profile }) => ({ gpu: name, profile }))
      : [],
  )
  return {
    cwd: process.cwd(),
    machine: {
      cpuCores: machine.affinity.length,
      gpus,
      memoryMiB: Object.fromEntries(
        machine.gpus.flatMap(({ name, memoryMiB }) =>
          memoryMiB === undefined ? [] : [[name, memoryMiB]],
        ),
      ),
      slices,
      shareBound: (serverBounds) => findShareBound(machine.gpus, machine.mps, serverBounds),
      drivesGpus: (engine) => findGpuSupportFault(engine, machine) === undefined,
      missingGguf: findMissingGguf(machine),
    },
  }
}
