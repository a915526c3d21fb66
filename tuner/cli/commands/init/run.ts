/** `tune init`: writes an experiment file for a server, a command or a model, and tests it. */
import { existsSync, writeFileSync } from 'node:fs'
import { basename, delimiter, dirname, join, relative, resolve } from 'node:path'
import { isRecord } from '../../../../profiler/plain-record.ts'
import { type ProtocolName, protocolTable } from '../../../../profiler/protocols/protocol-table.ts'
import { isGrpcUrl, isSocketUrl } from '../../../../profiler/server-address.ts'
import { findArchitecture } from '../../../../trials/devices/architecture.ts'
import { DeviceModelError } from '../../../../trials/devices/device-model-error.ts'
import { findServer } from '../../../../trials/launchers/local/processes.ts'
import type { TypedCommand } from '../../../../trials/launchers/typed-command.ts'
import { inspectMachine, type MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { findProgram, isProgram as isProgramFile } from '../../../../trials/machine/programs.ts'
import { makeFolder } from '../../../../trials/private-files.ts'
import { redactSecrets } from '../../../../trials/secrets.ts'
import { findServerByHeader, recogniseServer } from '../../../../trials/servers/own-command.ts'
import { quoteWord } from '../../../../trials/shell-words.ts'
import { createFlagsLayer, type FlagValues } from '../../../config/flags/flags.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { createExperimentJsonSchema } from '../../../config/schema/experiment-schema.ts'
import { extractSecrets } from '../../../config/secret-values.ts'
import { ConfigError, type Experiment } from '../../../config/types.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { requireWritableFiles } from '../../../writable-paths.ts'
import { createPrompt, type Prompt } from '../../render/prompt.ts'
import { listenForInterrupts } from '../../signals.ts'
import type { DiscoveredServer } from './discover.ts'
import {
  draftFromCommand,
  type ExperimentDraft,
  explainSloFault,
  formatModelName,
  parseCommandTarget,
  parseTarget,
  suggestSlo,
  type Target,
} from './experiment-draft.ts'
import { renderExperimentFile } from './experiment-text.ts'
import { probeServer } from './probe.ts'
import { runSmokeTest } from './smoke.ts'

export interface InitFlags extends FlagValues {
  readonly file: string
  readonly force?: boolean
  readonly yes?: boolean
  readonly smoke: boolean
  readonly url?: string
  readonly command?: string
  readonly model?: string
}

type Draft = Record<string, unknown>

/** Returns the exit code. */
export async function init(words: readonly string[], flags: InitFlags): Promise<number> {
  const cwd = process.cwd()
  if (existsSync(resolve(cwd, flags.file)) && !flags.force)
    throw new UserError(
      `${flags.file} already exists`,
      'choose another file with -f FILE, or overwrite it with --force',
      exitCodes.usage,
    )
  requireWritableFiles({ '-f': flags.file })
  const { layer, problems } = createFlagsLayer(flags, cwd)
  if (problems.length > 0) throw new ConfigError(problems)
  const { signal, dispose } = listenForInterrupts(() => process.stderr.write('stopping\n'))
  const ask = createPrompt(!flags.yes, signal, () => process.kill(process.pid, 'SIGINT'))
  try {
    const target = await resolveTarget(words, flags, ask)
    const machine = await inspectMachine()
    return await new ExperimentInit(target, layer.raw as Draft, flags, machine, ask, signal).run()
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    ask.close()
    dispose()
  }
}

async function resolveTarget(
  words: readonly string[],
  { url, command, model }: InitFlags,
  ask: Prompt,
): Promise<Target> {
  if (words.length === 0 && url !== undefined) return { kind: 'url', url }
  if (words.length === 0 && command !== undefined) return parseCommandTarget(command)
  if (words.length === 0 && model !== undefined) return { kind: 'model', model }
  const targetWords =
    words.length > 0
      ? words
      : [
          await ask.say(
            'What do you want to tune? Enter the URL of a server, the command that starts one, or a model',
          ),
        ]
  if (targetWords[0] === '')
    throw new UserError(
      'tune init: no server, command or model',
      'tune init http://127.0.0.1:8000, tune init gunicorn app:app, or tune init bert',
      exitCodes.usage,
    )
  return parseTarget(targetWords, isProgram)
}

const isProgram = (name: string): boolean =>
  name.includes('/')
    ? isProgramFile(resolve(process.cwd(), name))
    : findProgram((process.env.PATH ?? '').split(delimiter), name) !== undefined

/**
 * Whether a word starts a command, and is no URL, model or quoted command. Unknown words count as
 * missing programs.
 */
export function startsCommand(word: string): boolean {
  if (/\s/.test(word.trim())) return isProgram(word)
  const target = parseTarget([word], isProgram)
  return (
    target.kind === 'command' ||
    (target.kind === 'model' && !/[/\\]|\.(onnx|gguf|json)$/.test(word) && !isArchitecture(word))
  )
}

function isArchitecture(name: string): boolean {
  try {
    return findArchitecture(name) !== undefined
  } catch (error) {
    if (error instanceof DeviceModelError) return false
    throw error
  }
}

class ExperimentInit {
  readonly #cwd = process.cwd()
  readonly #userValues: Draft
  /** Settings found so far; those of the user take precedence. */
  #document: Draft
  readonly #comments: Record<string, string | undefined> = {}
  readonly #footer: string[] = []
  /** The running server was recognised by its process: its answers need not identify it. */
  #isRecognised = false
  readonly #variables: string[] = []

  constructor(
    private readonly target: Target,
    userValues: Draft,
    private readonly flags: InitFlags,
    private readonly machine: MachineFacts,
    private readonly ask: Prompt,
    private readonly signal: AbortSignal,
  ) {
    this.#userValues = userValues
    this.#document = {}
  }

  async run(): Promise<number> {
    const { target } = this
    const plan = this.#draftTarget()
    // `pin` already merges the user's values with the measured cores (#draftFromUrl): keep it.
    this.#document = {
      ...this.#document,
      ...plan,
      ...this.#userValues,
      ...(this.#document.pin !== undefined && { pin: this.#document.pin }),
    }
    this.#document.predictor = plan.predictor && {
      ...plan.predictor,
      ...(this.#userValues.predictor as Draft),
    }
    this.#document.space = mergeDrafts(plan.space, this.#userValues.space)
    const isPresetServer = plan.predictor && 'server' in plan.predictor
    // A preset has a fixed protocol: nothing to probe.
    const discovery = target.kind === 'model' || isPresetServer ? undefined : await this.#probe()
    if (discovery) this.#applyDiscovery(discovery)
    await this.#chooseSlo(discovery)
    const text = this.#renderText(this.#extractSecrets())
    const experiment = this.#load(text)
    this.#write(text)
    const next = `tune -f ${this.flags.file}`
    const code = this.flags.smoke
      ? await runSmokeTest(experiment, this.machine, this.signal)
      : exitCodes.ok
    for (const variable of this.#variables)
      printLine(`The file does not contain the secret: export ${variable}=... before you run tune.`)
    printLine(code === exitCodes.ok ? `Next: ${next}` : `Correct ${this.flags.file}, then: ${next}`)
    return code
  }

  #draftTarget(): Partial<ExperimentDraft> {
    const { target } = this
    if (target.kind === 'model') return { model: target.model }
    return target.kind === 'url' ? this.#draftFromUrl(target.url) : this.#draftFromCommand(target)
  }

  #draftFromCommand(typed: TypedCommand): Omit<ExperimentDraft, 'comments'> {
    const { tuned, comments, ...plan } = draftFromCommand(
      typed,
      this.#cwd,
      this.#userValues.model !== undefined,
    )
    const { server, parameters } = tuned
    printNote(
      server
        ? `Recognised ${server.title}: ${parameters.map(({ name }) => name).join(', ') || 'no tunable arguments'}.`
        : 'The server is unknown to tune: only CPU cores are tuned.',
    )
    if (server?.note) this.#footer.push(`${server.title}: ${server.note}`)
    if (parameters.length === 0) this.#footer.push(...placeholderNote)
    Object.assign(this.#comments, comments)
    return plan
  }

  #draftFromUrl(url: string): Pick<ExperimentDraft, 'predictor'> {
    const { hostname, port, protocol } = URL.canParse(url)
      ? new URL(url)
      : { hostname: '', port: '', protocol: '' }
    const local = isSocketUrl(url) || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
    const listening =
      local && hostname !== ''
        ? findServer(Number(port) || (/s:$/.test(protocol) ? 443 : 80))
        : undefined
    this.#comments.pin = local
      ? 'the resources it runs on, which set its price'
      : 'set the resources it runs on, which set its price'
    const server = listening && recogniseServer(listening.words)
    if (listening && server) {
      printNote(`Recognised ${server.title}, process ${listening.pid}.`)
      this.#isRecognised = true
      this.#footer.push(...this.#suggestCommand(listening))
    }
    const cores = local ? this.machine.affinity.length : 1
    this.#document.pin = { cpuCores: cores, ...(this.#userValues.pin as Draft) }
    return { predictor: { url } }
  }

  /** Comment with the command that would start the running server in trials. */
  #suggestCommand({ words, cwd }: { words: readonly string[]; cwd: string }): string[] {
    // gunicorn names its processes 'gunicorn: master [app:app]'.
    const processTitle = /^[\w-]+: (?:master|worker) \[(.*)\]/.exec(words[0]!)?.[1]
    const command = processTitle === undefined ? words : [words[0]!.split(':')[0]!, processTitle]
    const quoted = command.map(quoteWord).join(' ')
    return [runningServerNote, `  cd ${cwd} && tune init ${quoted}`]
  }

  async #probe(): Promise<DiscoveredServer> {
    const { predictor } = this.#document as { predictor: Draft }
    this.#checkSlo()
    // Placeholders: protocol json needs a path and a body to be valid.
    const isProtocolUnknown =
      predictor.protocol === undefined && !isGrpcUrl(String(predictor.url ?? ''))
    const provisional = {
      ...this.#document,
      predictor: {
        ...predictor,
        ...(isProtocolUnknown && { protocol: 'json' }),
        ...(predictor.path === undefined &&
          (isProtocolUnknown || protocolTable[predictor.protocol as ProtocolName]?.needsPath) && {
            path: '/predict',
          }),
      },
    }
    const experiment = this.#load(this.#renderText({ model: 'model', ...provisional, slo: '1s' }))
    const userSettings = {
      protocol: predictor.protocol as string | undefined,
      model: getModelName(this.#document.model),
      path: predictor.path as string | undefined,
    }
    return probeServer(experiment, userSettings, this.machine, this.signal)
  }

  /**
   * Reports an invalid SLO before anything starts. A streaming protocol is assumed, because the
   * real one is not known yet.
   */
  #checkSlo(): void {
    const { slo } = this.#userValues
    if (slo === undefined) return
    const predictor = { url: 'http://localhost', protocol: 'openai' }
    this.#load(this.#renderText({ model: 'model', slo, predictor, pin: { cpuCores: 1 } }))
  }

  #applyDiscovery(found: DiscoveredServer): void {
    const { protocol, model, path, healthPath, body, form, otherPaths, request, answer, answerMs } =
      found
    printNote(
      `It speaks ${protocolTable[protocol].title} and answers in ${answerMs < 10 ? answerMs.toFixed(1) : Math.round(answerMs)} ms:`,
    )
    printLine(redactSecrets(`  ${request}\n  → ${answer}`))
    const server =
      this.target.kind === 'url' && !this.#isRecognised
        ? findServerByHeader(found.server)
        : undefined
    if (server) {
      printNote(`Recognised ${server.title} by its answers.`)
      this.#footer.push(runningServerNote, `  tune init ${server.programs[0]} ...`)
    }
    const { streams, needsPath } = protocolTable[protocol]
    // A plain JSON server does not name its model, so use the name of the folder. A language-model
    // server requires its own name.
    if (streams && !isRecord(this.#document.model)) this.#document.model = formatModelName(model)
    else this.#document.model ??= needsPath ? basename(this.#cwd) : formatModelName(model)
    const discovered = {
      protocol,
      ...(path && { path }),
      ...(healthPath && { healthPath }),
      ...(body && { body }),
      ...(form && { form }),
    }
    this.#document.predictor = {
      ...(this.#document.predictor as Draft),
      ...discovered,
      ...(this.#userValues.predictor as Draft),
    }
    this.#comments['predictor.body'] =
      'request template: tune fills in {{text}}, {{image}} and {{int}}; use --payload for your own requests'
    if (found.knowsNoEos) {
      const load = this.#document.load as Draft | undefined
      this.#document.load = { ...load, payload: { ...(load?.payload as Draft), ignoreEos: false } }
      this.#comments['load.payload.ignoreEos'] =
        'the server rejects ignore_eos, so the model determines the length of answers'
    }
    if (otherPaths.length > 0)
      this.#comments['predictor.path'] = `other paths: ${otherPaths.slice(0, 5).join(', ')}`
  }

  async #chooseSlo(found: DiscoveredServer | undefined): Promise<void> {
    if (this.#document.slo !== undefined) return
    const streams = found && protocolTable[found.protocol].streams
    const guess = streams
      ? { ttft: '500ms', tpot: '50ms' }
      : found
        ? suggestSlo(found.answerMs)
        : '50ms'
    const text = streams ? "'ttft<500ms tpot<50ms'" : String(guess)
    const question = `Latency SLO, such as 50ms or 'p95<80ms' [${text}]`
    let answer = await this.ask.say(question)
    for (
      let fault = explainSloFault(answer);
      fault !== undefined;
      fault = explainSloFault(answer)
    ) {
      printNote(fault)
      answer = await this.ask.say(question)
    }
    this.#document.slo = answer === '' ? guess : answer
    if (answer === '')
      this.#comments.slo = 'a guess: set the latency that 99 % of requests must meet'
    if (answer === '' && isRecord(guess)) this.#comments['slo.ttft'] = 'a guess'
  }

  /** Replaces secrets by references, because the file may be shared. */
  #extractSecrets(): Draft {
    const { predictor } = this.#document
    if (!isRecord(predictor)) return this.#document
    const extracted = extractSecrets({ predictor } as Parameters<typeof extractSecrets>[0], {
      folder: this.#cwd,
    })
    for (const [reference, value] of extracted.secrets) {
      const name = reference.replace(/^env:/, '')
      // The file refers to the secret by this variable: the check and the smoke test read it.
      process.env[name] = value
      this.#variables.push(name)
    }
    return { ...this.#document, predictor: extracted.entries.predictor }
  }

  #renderText(document: Draft): string {
    const order = [
      'name',
      'model',
      'slo',
      'demand',
      'devices',
      'predictor',
      'space',
      'pin',
      'load',
      'expect',
    ]
    const keys = [...order, ...Object.keys(document).filter((key) => !order.includes(key))]
    const normalised: Draft = {
      ...document,
      slo: shortenSlo(document.slo),
      predictor: orderPredictorKeys(document.predictor),
    }
    const isSet = (value: unknown) =>
      value !== undefined && !(isRecord(value) && Object.keys(value).length === 0)
    const entries = keys.flatMap((key) => (isSet(normalised[key]) ? [[key, normalised[key]]] : []))
    const head = [
      `Run it with tune -f ${this.flags.file}; tune config -f ${this.flags.file} shows every value. Keys: docs/reference/experiment-file.md`,
    ]
    const schemaPath = relative(dirname(resolve(this.#cwd, this.flags.file)), this.#getSchemaPath())
    return renderExperimentFile({
      document: Object.fromEntries(entries),
      comments: this.#comments,
      head,
      foot: this.#footer,
      schemaPath,
    })
  }

  #getSchemaPath(): string {
    return join(this.#cwd, '.tune', 'experiment.schema.json')
  }

  #load(text: string): Experiment {
    return loadExperiment({ file: this.flags.file, text, ...createHostContext(this.machine) })
  }

  #write(text: string): void {
    makeFolder(dirname(this.#getSchemaPath()))
    writeFileSync(
      this.#getSchemaPath(),
      `${JSON.stringify(createExperimentJsonSchema(), null, 2)}\n`,
    )
    writeFileSync(resolve(this.#cwd, this.flags.file), text, {
      flag: this.flags.force ? 'w' : 'wx',
    })
    printLine(`Wrote ${this.flags.file}.`)
  }
}

const runningServerNote =
  'tune measures a running server as it is. To tune it, let trials start it:'
const placeholderNote = [
  'To tune more, put a placeholder such as ${workers} into the command, its environment or a file, and list its values:',
  '  space: {workers: {values: 1..4, category: server}}',
]

const printLine = (text: string) => process.stdout.write(`${text}\n`)
const printNote = (text: string) => process.stderr.write(`${text}\n`)
/** Order of keys in the file. */
const predictorOrder = [
  'url',
  'server',
  'command',
  'env',
  'protocol',
  'path',
  'healthPath',
  'body',
  'form',
  'headers',
]
function orderPredictorKeys(predictor: unknown): unknown {
  if (!isRecord(predictor)) return predictor
  const otherKeys = Object.keys(predictor).filter((key) => !predictorOrder.includes(key))
  return Object.fromEntries(
    [...predictorOrder, ...otherKeys].flatMap((key) =>
      predictor[key] === undefined ? [] : [[key, predictor[key]]],
    ),
  )
}

/** {percentile: p95, limit: 80ms} as p95<80ms. */
function shortenSlo(slo: unknown): unknown {
  if (!isRecord(slo) || typeof slo.limit !== 'string') return slo
  const { percentile = 'p99', limit, ...rest } = slo
  return Object.keys(rest).length > 0
    ? slo
    : percentile === 'p99'
      ? limit
      : `${percentile}<${limit}`
}

const mergeDrafts = (a: unknown, b: unknown): Draft | undefined =>
  a === undefined && b === undefined ? undefined : { ...(a as Draft), ...(b as Draft) }
const getModelName = (model: unknown): string | undefined =>
  typeof model === 'string'
    ? model
    : isRecord(model)
      ? (model.name as string | undefined)
      : undefined
