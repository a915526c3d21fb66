/**
 * Servers that are configured by a settings file instead of arguments: turns their file into a
 * template for trials.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { isMap, isSeq, parseDocument, type YAMLMap } from 'yaml'
import { readText } from '../../../../profiler/bounded-reader.ts'
import type { ServerKnob } from '../../../../trials/servers/known-servers.ts'
import type { TunedCommand } from '../../../../trials/servers/own-command.ts'

interface SettingsFile {
  readonly command: readonly string[]
  /** Path in the folder of a trial → template. */
  readonly files: Readonly<Record<string, string>>
  readonly parameters: readonly ServerKnob[]
}

/** Undefined for other servers, and for commands without such a file. */
export function rewriteSettingsFile(
  { server, command }: Pick<TunedCommand, 'server' | 'command'>,
  cwd: string,
): SettingsFile | undefined {
  return server?.settings === 'ray-serve' ? rewriteRayServe(command, server.knobs, cwd) : undefined
}

const formatPlaceholder = ({ name }: ServerKnob): string => `\${${name}}`

/**
 * Rewrites the file of `serve run FILE`, with placeholders for the port and for replicas,
 * concurrency and cores of every deployment.
 */
function rewriteRayServe(
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
    ? applications.items.flatMap((application) => {
        const list = isMap(application) ? application.get('deployments') : undefined
        return isSeq(list) ? list.items.filter(isMap) : []
      })
    : []
  if (document.errors.length > 0 || deployments.length === 0) return undefined
  document.setIn(['http_options', 'host'], '${host}')
  document.setIn(['http_options', 'port'], '${port}')
  let autoscales = false
  for (const deployment of deployments as YAMLMap[]) {
    // Ray Serve rejects it together with num_replicas.
    autoscales = deployment.delete('autoscaling_config') || autoscales
    deployment.flow = false
    for (const knob of knobs)
      setNested(document, deployment, knob.setting!.split('.'), formatPlaceholder(knob))
  }
  return {
    command: words.with(at, '${dir}/serve.yaml'),
    files: { 'serve.yaml': document.toString({ lineWidth: 0 }) },
    parameters: knobs.map((knob) =>
      autoscales && knob.setting === 'num_replicas'
        ? { ...knob, what: `${knob.what}; replaces autoscaling_config` }
        : knob,
    ),
  }
}

function setNested(
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
