/**
 * What would cost a run its results is found before its first trial: exit code 1 or 2, and no
 * experiment in the store.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { CliBox } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
afterAll(() => {
  tune.end()
  box.dispose()
})
const file = (name: string, text: string | Buffer) => writeFileSync(join(box.folder, name), text)
file('a-file', 'x')
file('broken.jsonl', '{"a": 1}\nno json\n')
file('nul.txt', 'a\0b\n')
file('utf16.txt', Buffer.from('\ufeffa text', 'utf16le'))
mkdirSync(join(box.folder, 'pictures'))
file('pictures/a.jpg', 'no picture')
mkdirSync(join(box.folder, 'out/recommendation.json'), { recursive: true })
mkdirSync(join(box.folder, 'spec/deployment.yaml'), { recursive: true })
symlinkSync('no/such/folder', join(box.folder, 'nowhere'))
symlinkSync('loop', join(box.folder, 'loop'))
const simulated = [
  '--model',
  'bert',
  '--slo',
  '50ms',
  '--backend',
  'simulated',
  '--max-trials',
  '2',
  '--no-confirm',
]
const local = ['--model', 'bert-tiny', '--slo', '50ms', '--max-trials', '1']

describe('refused before anything is kept', () => {
  test.each<[string, readonly string[], RegExp]>([
    [
      'results below a file',
      [...simulated, '--out', 'a-file/results'],
      /results cannot be written to .*a-file is not a folder/,
    ],
    [
      'results that are a folder',
      [...simulated, '--out', 'out'],
      /its entry recommendation\.json is a folder/,
    ],
    [
      'results where nothing can be made',
      [...simulated, '--out', '/proc/results'],
      /results cannot be written to \/proc\/results: /,
    ],
    [
      'results that are a folder where a spec goes',
      [...simulated, '--out', 'spec'],
      /its entry deployment\.yaml is a folder/,
    ],
    [
      'results behind a link to nowhere',
      [...simulated, '--out', 'nowhere'],
      /results cannot be written to \S+nowhere: E\w+/,
    ],
    [
      'results behind a link to itself',
      [...simulated, '--out', 'loop/results'],
      /results cannot be written to \S+results: ELOOP/,
    ],
    [
      'results of too long a name',
      [...simulated, '--out', `new/${'a'.repeat(300)}`],
      /results cannot be written to .*ENAMETOOLONG/,
    ],
    ['requests that are no JSON', [...local, '--payload', 'broken.jsonl'], /broken\.jsonl:2: /],
    ['texts with a NUL', [...local, '--payload', 'nul.txt'], /nul\.txt:1: a NUL byte/],
    ['texts in UTF-16', [...local, '--payload', 'utf16.txt'], /is in UTF-16/],
    [
      'pictures that are none',
      [...local, '--payload', 'pictures'],
      /not an image, despite its name/,
    ],
  ])('%s', async (_, args, message) => {
    const result = await tune.run(box, args)
    expect(result.stderr).toMatch(message)
    expect(result.code).toBe(2)
    expect(existsSync(join(box.folder, '.tune', 'tune.db'))).toBe(false)
    expect(existsSync(join(box.folder, 'new'))).toBe(false)
  })

  test('a store where nothing can be made', async () => {
    const result = await tune.run(box, [...simulated, '--db', '/proc/no/such/tune.db'])
    expect([result.code, result.stderr]).toEqual([
      1,
      expect.stringMatching(/cannot create the folder of the trial store .*: ENOENT/),
    ])
  })

  test('a dry run says so too', async () => {
    expect((await tune.run(box, [...simulated, '--dry-run', '--out', 'a-file/results'])).code).toBe(
      2,
    )
  })
})

describe('a file that cannot be written is refused before anybody is asked for it', () => {
  execFileSync('mkfifo', [join(box.folder, 'pipe.html')])
  const places: readonly (readonly [string, string, RegExp])[] = [
    ['below a file', 'a-file/x.html', /EEXIST|ENOTDIR/],
    ['a folder', 'folder.html', /is a folder/],
    ['in a file system that takes none', '/proc/x.html', /ENOENT/],
    ['behind a link to itself', 'loop/x.html', /ELOOP|EEXIST/],
    ['of too long a name', `${'a'.repeat(300)}.html`, /ENAMETOOLONG/],
    ['a pipe', 'pipe.html', /is not a file, but a device, a pipe or a socket/],
  ]
  mkdirSync(join(box.folder, 'folder.html'))

  test.each(places)('of a profile: %s', async (_, place, message) => {
    let asked = 0
    const server = createServer((_request, response) => {
      asked++
      response.end('{}')
    }).listen(0, '127.0.0.1')
    try {
      await new Promise((resolve) => server.once('listening', resolve))
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/predict`
      const result = await tune.run(box, [
        'profile',
        '--url',
        url,
        '--protocol',
        'json',
        '--slo',
        '50ms',
        '--html',
        place,
      ])
      expect([result.code, result.stderr]).toEqual([2, expect.stringMatching(message)])
      expect(result.stderr).toContain(`--html ${place.slice(0, 50)}`)
      expect(asked).toBe(0)
    } finally {
      server.close()
    }
  })

  test.each(['report', 'plan'])('of a %s', async (command) => {
    const result = await tune.run(box, [
      command,
      '--out',
      'folder.html',
      ...(command === 'plan' ? ['--peak', '100'] : []),
    ])
    expect([result.code, result.stderr]).toEqual([
      2,
      expect.stringContaining('--out folder.html: is a folder'),
    ])
  })

  test('of a new experiment', async () => {
    const result = await tune.run(box, [
      'init',
      '--model',
      'bert',
      '--slo',
      '50ms',
      '--yes',
      '-f',
      '/proc/x.yaml',
    ])
    expect([result.code, result.stderr]).toEqual([
      2,
      expect.stringContaining('-f /proc/x.yaml: ENOENT'),
    ])
  })

  test('and what stands there is left alone', () =>
    expect(lstatSync(join(box.folder, 'pipe.html')).isFIFO()).toBe(true))
})
