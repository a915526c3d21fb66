/** What the experiment needs to know of the machine. */
import { findMissingGguf, findMissingGpuDriver } from '../../trials/launchers/builtin.ts'
import { findShareBound, isWhole } from '../../trials/machine/gpu-offer.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Surroundings } from './context.ts'

/**
 * A GPU counts for the built-in predictor only where the package that drives it works; a user's own
 * command may use every GPU there is.
 */
export function surroundings(machine: MachineFacts): Surroundings {
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
      drivesGpus: (engine) => findMissingGpuDriver(engine, machine) === undefined,
      missingGguf: findMissingGguf(machine),
    },
  }
}
