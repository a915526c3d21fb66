/** How the built-in predictor is started, and how it says where it serves. */
import type { Configuration } from '../../search/types.ts'
import type { MachineFacts } from '../machine/machine.ts'
import { processEntry } from '../predictor/entry.ts'
import type { Resources } from '../resources.ts'
import { LaunchError } from '../types.ts'
import { builtinEnvironment, type FilledTemplate } from './fill.ts'
import { catalogueName, type Holding } from './holdings.ts'
import type { BuiltinTemplate, CommandTemplate } from './template.ts'

type RunningEngine = Exclude<BuiltinTemplate['engine'], 'auto'>

/**
 * The engine that `auto` comes to: real ones where the machine has what the configuration asks for, else the emulated one.
 * @throws LaunchError when a real engine is asked for on a GPU and the package that drives it is not there
 */
export const engineFor = (template: BuiltinTemplate, asked: Resources, machine: MachineFacts): RunningEngine => {
  const wanted = template.engine === 'auto' ? 'tfjs' : template.engine
  if (wanted === 'emulated' || asked.gpu === undefined) return wanted
  const driver = machine.packages.find(({ name }) => name === gpuPackages[wanted])
  const drivable = driver?.state === 'ok'
  if (template.engine === 'auto') return drivable && machine.gpus.some((gpu) => catalogueName(gpu) === asked.gpu) ? 'tfjs' : 'emulated'
  if (!drivable) {
    const problem = driver?.state === 'broken' ? `cannot be imported: ${driver.problem}` : 'is not installed'
    throw new LaunchError(
      `engine ${wanted} on a ${asked.gpu}: ${gpuPackages[wanted]} ${problem}`,
      `npm install ${gpuPackages[wanted]}, or use the emulated engine`,
    )
  }
  return wanted
}

const gpuPackages = { tfjs: '@tensorflow/tfjs-node-gpu', onnx: 'onnxruntime-node' } as const

/** Whether a configuration's GPU must be one of this machine's. */
export const gpuIsReal = (template: BuiltinTemplate | CommandTemplate, asked: Resources, machine: MachineFacts): boolean =>
  asked.gpu !== undefined && (template.kind === 'command' || engineFor(template, asked, machine) !== 'emulated')

export const builtinCommand = (
  template: BuiltinTemplate,
  configuration: Configuration,
  asked: Resources,
  holding: Holding,
  machine: MachineFacts,
): FilledTemplate => {
  const entry = processEntry('../predictor/main', import.meta.url)
  return {
    argv: [process.execPath, ...entry.execArgv, entry.path],
    env: {
      ...builtinEnvironment(template, configuration),
      MODEL: template.model,
      ENGINE: engineFor(template, asked, machine),
      CPU_CORES: String(Math.ceil(asked.cpuCores)),
      ...(holding.gpuMemoryFraction === undefined ? {} : { GPU_MEMORY_FRACTION: String(holding.gpuMemoryFraction) }),
      HOST: '127.0.0.1',
      PORT: '0',
    },
    files: [],
  }
}

/** The line {"ready": true, "port": 43211} that the built-in predictor prints once it serves. */
export const createAnnouncement = (): { readonly port: Promise<number>; readonly read: (line: string) => void } => {
  let announce: (port: number) => void
  const port = new Promise<number>((resolve) => {
    announce = resolve
  })
  return {
    port,
    read: (line) => {
      const said = /^\{.*"ready"\s*:\s*true.*\}\s*$/.test(line) && /"port"\s*:\s*(\d+)/.exec(line)
      if (said) announce(Number(said[1]))
    },
  }
}
