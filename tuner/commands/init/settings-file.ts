/**
 * Servers whose tuning stands in a file of settings, not in arguments: the file as trials write it,
 * from the one that the command names.
 */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { isMap, isSeq, parseDocument, type YAMLMap } from 'yaml'
import { readText } from '../../../profiler/bounded-reader.ts'
import type { TunedCommand } from '../../../trials/launchers/own-command.ts'
import type { ServerKnob } from '../../../trials/launchers/own-servers.ts'

interface SettingsFile {
  readonly command: readonly string[]
  /** Path in the folder of a trial → text with placeholders. */
  readonly files: Readonly<Record<string, string>>
  readonly knobs: readonly ServerKnob[]
  /** How it is asked, where that follows. */
  readonly predictor?: Readonly<Record<string, string>>
}

/**
 * Undefined for servers without one, and for commands that do not say what is served: the table's
 * note says what to do then.
 */
export function settingsFile(
  { server, command }: Pick<TunedCommand, 'server' | 'command'>,
  cwd: string,
): SettingsFile | undefined {
  if (server?.settings === 'torchserve') return torchServe(command, server.knobs, cwd)
  return server?.settings === 'ray-serve' ? rayServe(command, server.knobs, cwd) : undefined
}

const placeholder = ({ name }: ServerKnob): string => `\${${name}}`

/** The value of an argument, and the words without it. */
function taken(words: readonly string[], name: string): { value?: string; rest: string[] } {
  const at = words.findIndex((word) => word === name || word.startsWith(`${name}=`))
  if (at < 0) return { rest: [...words] }
  const joined = words[at]!.startsWith(`${name}=`)
  return {
    value: joined ? words[at]!.slice(name.length + 1) : words[at + 1],
    rest: words.toSpliced(at, joined ? 1 : 2),
  }
}

/**
 * Its config.properties: addresses, threads, and workers and batches of the model that --models
 * names.
 */
function torchServe(
  words: readonly string[],
  knobs: readonly ServerKnob[],
  cwd: string,
): SettingsFile {
  const { value: path, rest: plain } = taken(words, '--ts-config')
  const named = taken(plain, '--models')
  const [, name, archive] = /^([\w.-]+)=([^\s/]+\.mar)$/.exec(named.value ?? '') ?? []
  const rest = name === undefined ? plain : named.rest
  const file = path && resolve(cwd, path)
  const given = file && existsSync(file) ? readText(file, 'document').split(/\r?\n/) : []
  const global = knobs.filter(({ of }) => of !== 'model')
  const settings: Record<string, string> = {
    inference_address: 'http://${host}:${port}',
    management_address: 'http://127.0.0.1:8081',
    metrics_address: 'http://127.0.0.1:8082',
    ...Object.fromEntries(global.map((knob) => [knob.setting!, placeholder(knob)])),
  }
  const own = knobs.filter(({ of }) => of === 'model')
  if (name !== undefined) {
    const [workers, ...batching] = own.map((knob) => [knob.setting!, placeholder(knob)] as const)
    const values = [['maxWorkers', workers![1]], workers!, ...batching]
      .map(([key, value]) => `"${key}": ${value}`)
      .join(', ')
    settings.load_models = archive!
    settings.models = `{"${name}": {"1.0": {"defaultVersion": true, "marName": "${archive}", ${values}, "responseTimeout": 120}}}`
  }
  const kept = given.filter(
    (line) => !Object.keys(settings).some((key) => line.trim().startsWith(`${key}=`)),
  )
  const lines = [
    ...kept.filter((line) => line.trim() !== ''),
    ...Object.entries(settings).map(([key, value]) => `${key}=${value}`),
  ]
  const foreground = rest.includes('--foreground') ? [] : ['--foreground']
  return {
    command: [...rest, ...foreground, '--ts-config=${dir}/config.properties'],
    files: { 'config.properties': `${lines.join('\n')}\n` },
    knobs: name === undefined ? global : [...global, ...own],
    predictor: {
      ...(name !== undefined && { protocol: 'json', path: `/predictions/${name}` }),
      healthPath: '/ping',
      readyTimeout: '3m',
    },
  }
}

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
  for (const deployment of deployments as YAMLMap[])
    for (const knob of knobs) {
      deployment.delete('autoscaling_config')
      deployment.flow = false
      setIn(document, deployment, knob.setting!.split('.'), placeholder(knob))
    }
  return {
    command: words.with(at, '${dir}/serve.yaml'),
    files: { 'serve.yaml': document.toString({ lineWidth: 0 }) },
    knobs,
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
