import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { loadExperiment } from '../../../config/load-experiment.ts'
import { ConfigError } from '../../../config/types.ts'
import { formatRequestExample } from './request-example.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-form-files-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
mkdirSync(join(folder, 'below'))
writeFileSync(join(folder, 'clip.wav'), Buffer.alloc(44_100))
writeFileSync(join(folder, 'below/clip.wav'), Buffer.alloc(1_000))
writeFileSync(join(folder, 'words.txt'), 'hello there')

const machine = { cpuCores: 4, gpus: [] }
const head = { model: 'm', slo: '1s', predictor: { url: 'http://h:1', protocol: 'json' } }
const ofFile = (form: unknown, file = 'below/e.yaml') =>
  loadExperiment({
    cwd: folder,
    machine,
    file,
    text: JSON.stringify({ ...head, predictor: { ...head.predictor, path: '/p', form } }),
  })
const ofFlags = (form: readonly string[]) =>
  loadExperiment({
    cwd: folder,
    machine,
    flags: { model: 'm', slo: '1s', url: 'http://h:1', protocol: 'json', path: '/p', form },
  })
const problemsOf = (load: () => unknown) => {
  try {
    load()
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems
  }
}

describe('files of a form', () => {
  test('start from the folder of the file that names them, or from here', async () => {
    expect(await formatRequestExample(ofFile({ file: '@clip.wav', n: 3 }))).toBe(
      'A request: POST /p, multipart/form-data\n  file=@clip.wav (audio/wav, 1,000 bytes), n=3',
    )
    expect(await formatRequestExample(ofFlags(['file=@clip.wav', 'text=<words.txt']))).toBe(
      'A request: POST /p, multipart/form-data\n  file=@clip.wav (audio/wav, 44,100 bytes), text=hello there',
    )
  })

  test('are shown with the names and types that they are sent with', async () => {
    expect(
      await formatRequestExample(
        ofFlags([
          'f=@clip.wav;type=audio/x-wav;filename=a.wav',
          'f=@words.txt',
          'meta={"n":1};type=application/json',
          'to=\\@home',
        ]),
      ),
    ).toBe(
      'A request: POST /p, multipart/form-data\n  f=@a.wav (audio/x-wav, 44,100 bytes), f=@words.txt (text/plain, 11 bytes), meta={"n":1} (application/json), to=@home',
    )
  })

  test.each([
    ['file=@no.wav', 'no file'],
    ['file=@below', 'is a folder'],
    ['file=@-', 'standard input'],
    ['file=@', 'names no file'],
  ])('%s is an error of its flag', (text, words) => {
    expect(problemsOf(() => ofFlags([text]))).toMatchObject([
      { where: '--form', what: expect.stringContaining(words) },
    ])
  })

  test('one that is missing is an error of its line', () => {
    expect(problemsOf(() => ofFile({ file: '@words.txt' }))).toMatchObject([
      { where: expect.stringMatching(/e\.yaml:1/), what: expect.stringContaining('no file') },
    ])
  })

  test('an experiment that is written back finds them again', () => {
    const { document } = ofFile({ file: ['@clip.wav', '@../words.txt;type=a/b'] })
    expect(document).toMatchObject({
      predictor: {
        form: {
          file: [`@${join(folder, 'below/clip.wav')}`, `@${join(folder, 'words.txt')};type=a/b`],
        },
      },
    })
  })
})
