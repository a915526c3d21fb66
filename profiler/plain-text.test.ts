import { expect, test } from 'vitest'
import { stripControls } from './plain-text.ts'

test.each([
  ['\u001b[31mred\u001b[0m', 'red'],
  ['\u001b]0;new title\u0007text', 'text'],
  ['\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\', 'link'],
  ['a\u001b[2J\u001b[Hb', 'ab'],
  ['\u009b31mred', 'red'],
  ['bell\u0007 back\b null\u0000', 'bell back null'],
  ['\u001bc reset', ' reset'],
  ['\u202egnp.exe', 'gnp.exe'],
  ['two\nlines\tand a tab', 'two\nlines\tand a tab'],
  ['Zürich 東京 ✓', 'Zürich 東京 ✓'],
  ['cut off \u001b[', 'cut off '],
  ['cut off \u001b', 'cut off '],
])('%j is shown as %j', (text, shown) => {
  expect(stripControls(text)).toBe(shown)
})
