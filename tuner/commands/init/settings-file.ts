/**
 * Servers whose tuning stands in a file of settings, not in arguments: the file as trials write it,
 * from the one that the command names.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { isMap, isSeq, parseDocument, type YAMLMap } from 'yaml'
import { readText } from '../../../profiler/bounded-reader.ts'
import type { ServerKnob } from '../../../trials/servers/known-servers.ts'
import type { TunedCommand } from '../../../trials/servers/own-command.ts'

interface SettingsFile {
  readonly command: readonly string[]
  /** Path in the folder of a trial → text with placeholders. */
  readonly files: Readonly<Record<string, string>>
  readonly knobs: readonly ServerKnob[]
}

/**
 * Undefined for servers without one, and for commands that do not say what is served: the table's
 * note says what to do then.
 */
export function settingsFile(
  { server, command }: Pick<TunedCommand, 'server' | 'command'>,
  cwd: string,
): SettingsFile | undefined {
  return server?.settings === 'ray-serve' ? rayServe(command, server.knobs, cwd) : undefined
}

const placeholder = ({ name }: ServerKnob): string => `\${${name}}`

/**
 * The configuration that `serve run FILE` is given: the port, and every deployment's replicas,
 * requests at once and cores.
 */
function rayServe(
  words: readonly string[],
  knobs: readonly ServerKnob[],
  cwd: string,
): SettingsFile | undefined {
  const at = words.findIndex((word) => /\.ya?ml$/.test(word))
  const file = at < 0 ? undefined : resolve(cwd, words[at]!)
  if (file === undefined || !existsSync(file)) return undefined
  const document = parseDocument(readText(file, 'document'))
  const applications = document.get('applications')
  const deployments = isSeq(applications)
    ? applications.items.flatMap((one) => {
        const own = isMap(one) ? one.get('deployments') : undefined
        return isSeq(own) ? own.items.filter(isMap) : []
      })
    : []
  if (document.errors.length > 0 || deployments.length === 0) return undefined
  document.setIn(['http_options', 'host'], '${host}')
  document.setIn(['http_options', 'port'], '${port}')
  let autoscales = false
  for (const deployment of deployments as YAMLMap[]) {
    // Ray Serve refuses it beside num_replicas.
    autoscales = deployment.delete('autoscaling_config') || autoscales
    deployment.flow = false
    for (const knob of knobs)
      setIn(document, deployment, knob.setting!.split('.'), placeholder(knob))
  }
  return {
    command: words.with(at, '${dir}/serve.yaml'),
    files: { 'serve.yaml': document.toString({ lineWidth: 0 }) },
    knobs: knobs.map((knob) =>
      autoscales && knob.setting === 'num_replicas'
        ? { ...knob, what: `${knob.what}; replaces autoscaling_config` }
        : knob,
    ),
  }
}

function setIn(
  document: ReturnType<typeof parseDocument>,
  map: YAMLMap,
  [key = '', inner]: readonly string[],
  value: string,
): void {
  if (inner === undefined) {
    map.set(key, value)
    return
  }
  const below = map.get(key)
  const target = isMap(below) ? below : (document.createNode({}) as YAMLMap)
  target.flow = false
  target.set(inner, value)
  map.set(key, target)
}
