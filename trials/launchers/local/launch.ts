/** One launch of a predictor on this machine: the state that its steps share. */
import { writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import { makePrivateFolder, privateFileMode } from '../../private-files.ts'
import type { Resources } from '../../resources.ts'
import { LaunchError, type OnWaiting } from '../../types.ts'
import { chooseEngine } from '../builtin.ts'
import { limitsOwnGpuMemory } from '../fill.ts'
import type { LauncherValues, TunedParameter } from '../placeholders.ts'
import type { BuiltinTemplate, CommandTemplate } from '../template.ts'
import { experimentVariable, folderVariable } from './abandoned.ts'
import { type ControlGroup, createControlGroup, nameGroup } from './control-group.ts'
import type { PreparedArtifact } from './prepare-step.ts'
import type { GpuUse, ResourcePool, ResourceReservation } from './resource-pool.ts'

export interface LocalLauncherOptions {
  readonly template: BuiltinTemplate | CommandTemplate
  /** Category of every tuned parameter. */
  readonly parameters: readonly TunedParameter[]
  /** Values of parameters that no configuration names. */
  readonly defaults?: Configuration
  /** Custom GPUs. */
  readonly ownGpus?: readonly Gpu[]
  /** Speaks the template's protocol. */
  readonly protocol: Protocol
  readonly payload: PayloadSource
  /** The experiment's folder: logs and files of trial n go to trials/n below it. */
  readonly runDirectory: string
  /**
   * Folder with notes about running predictors for `sweep`. Default: 'running' next to the
   * experiment's folder, so that any later experiment sweeps.
   */
  readonly runningDirectory?: string
  readonly machine: MachineFacts
  /** From SIGTERM to SIGKILL. Default 5000. */
  readonly graceMs?: number
  /** Size at which a log file is rotated; two files remain. Default 8 MiB. */
  readonly logLimitBytes?: number
  /** Present: the predictor is one of several in a trial. */
  readonly stage?: StageOptions
}

/** A replica of a stage of a pipeline. */
interface StageOptions {
  /** Folder of the replica below that of the trial. */
  readonly folder: string
  /** Resources of all predictors of the trial. */
  readonly pool: ResourcePool
  /** Addresses of the stages that it calls, by name. */
  readonly urls: ReadonlyMap<string, string>
}

/** Default time from SIGTERM to SIGKILL. Assumed. */
export const defaultGraceMs = 5_000
export const host = '127.0.0.1'

export interface Launch {
  readonly options: LocalLauncherOptions
  readonly runningDirectory: string
  readonly configuration: Configuration
  readonly resources: Resources
  readonly reservation: ResourceReservation
  /** Releases `reservation`, and reserves resources for another configuration. */
  readonly changeReservation: (
    other: Configuration,
    until: AbortSignal,
  ) => Promise<ResourceReservation>
  /** Releases the reservation. */
  readonly release: () => void
  readonly trialNumber: number
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
  /** Result of the template's `prepare` step. */
  readonly prepared?: PreparedArtifact
}

/** The predictor's folder in that of the trial, created if missing. */
export const makeTrialFolder = ({
  options: { runDirectory, stage },
  trialNumber,
}: Launch): string =>
  writeToDisk(() =>
    makePrivateFolder(join(runDirectory, 'trials', String(trialNumber), stage?.folder ?? '')),
  )

/**
 * Writes below the run directory.
 * @throws LaunchError if the disk fails
 */
export const writeToDisk = <T>(write: () => T): T => {
  try {
    return write()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    throw new LaunchError(
      `cannot write the files of the trial: ${(error as Error).message}`,
      'check that the disk is neither full nor read-only',
    )
  }
}

/** @param files paths below the folder */
export const writeFiles = (
  folder: string,
  files: readonly { readonly path: string; readonly contents: string }[],
): void => {
  for (const { path, contents } of files) {
    makePrivateFolder(dirname(join(folder, path)))
    writeFileSync(join(folder, path), contents, { mode: privateFileMode })
  }
}

/** Placeholders of a template that come from the resources of the trial. */
export const listResourceValues = (
  { resources, reservation }: Launch,
  model: string,
): LauncherValues => ({
  model,
  cpuCores: resources.cpuCores,
  gpuMemoryMiB: resources.gpuMemoryMiB ?? 0,
  gpuMemoryFraction: reservation.gpuMemoryFraction ?? 0,
})

/**
 * Whether the GPU of a configuration must be one of this machine's, and whether the predictor itself
 * bounds its memory.
 */
export const classifyGpuUse = (
  { template, parameters, machine, ownGpus }: LocalLauncherOptions,
  resources: Resources,
): GpuUse =>
  template.kind === 'command'
    ? { real: resources.gpu !== undefined, boundsMemory: limitsOwnGpuMemory(template, parameters) }
    : {
        real:
          resources.gpu !== undefined &&
          chooseEngine(template, resources, machine, ownGpus) !== 'emulated',
        boundsMemory: false,
      }

/** Limits the trial to its share of a core, and to its memory if configured. */
export const createTrialControlGroup = (
  { options, resources, trialNumber }: Launch,
  memoryMiB?: number,
): Promise<ControlGroup> =>
  createControlGroup(options.machine.cgroups, nameGroup(trialNumber), {
    cpuCores: Number.isInteger(resources.cpuCores) ? undefined : resources.cpuCores,
    memoryMiB,
    trackProcesses: options.template.kind !== 'builtin',
  })

/** The variables by which `tune clean` finds the processes of the trial. */
export const createOwnerVariables = ({
  runningDirectory,
  options,
}: Launch): Record<string, string> => ({
  [folderVariable]: runningDirectory,
  [experimentVariable]: basename(options.runDirectory),
})

/**
 * The tuner's own environment, with the variables that select the trial's GPUs. HIP reads
 * CUDA_VISIBLE_DEVICES too, and vLLM ends where it names other GPUs than HIP_VISIBLE_DEVICES.
 */
export const createInheritedEnvironment = ({
  env,
}: ResourceReservation): Record<string, string> => {
  const { CUDA_VISIBLE_DEVICES, ...others } = process.env as Record<string, string>
  return {
    ...('HIP_VISIBLE_DEVICES' in env && CUDA_VISIBLE_DEVICES !== '' ? others : process.env),
    ...env,
  } as Record<string, string>
}
