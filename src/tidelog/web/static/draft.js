// A scenario as something to change: a head and steps, each a command and the lines of the comment above it.
//
// Every change makes a new text, and the text is all that is ever played, shared or saved.

// Begins the chapter in which a story is no longer what its author narrated. Looked up like any other comment.
export const CHANGED_HERE = "From here on the story is changed.";

const HEAD = /^(scenario|title|source|cluster|topic|producer|consumer|expect)\s/;
const isOfAuthor = (line) => /^(scenario|title|source|expect)\b/.test(line);

const bare = (line) => line.replace(/ generation=\S+/, "").replace(/\s+/g, " ");

export class Draft {
  constructor(head, steps) {
    this.head = head;
    this.steps = steps;
  }

  // A recording lists exactly what its text says.
  static of(recording) {
    const steps = recording.steps.slice(1).map(({ command, source }) => ({ command, comment: source ?? [] }));
    return new Draft(recording.head.map((line) => line.replace(/ generation=\S+/, "")), steps);
  }

  // A text that can be played, as written: what follows `----` is the output of a transcript.
  static read(text) {
    const head = [], steps = [];
    let comment = [], inOutput = false;
    for (const line of text.split("\n").map((raw) => raw.trim())) {
      if (inOutput || line === "----" || !line) {
        inOutput = line !== "" && (inOutput || line === "----");
        comment = [];
      } else if (line.startsWith("#")) comment.push(line);
      else {
        if (HEAD.test(line)) head.push(line);
        else steps.push({ command: line.replace(/\s+/g, " "), comment });
        comment = [];
      }
    }
    return new Draft(head, steps);
  }

  get name() {
    return this.head[0].split(/\s+/)[1];
  }

  // This draft as a change of another, without what the other's author narrated and need not be true any more: title and
  // expectations, and every comment from the first change on that the other has, too. A comment tells of its whole
  // chapter, so one whose chapter is cut short goes as well. What the reader has written stays.
  asChangeOf(former, name) {
    const at = this.#firstChange(former);
    if (at === null) return this;
    const [first, ...rest] = this.head;
    const stale = new Set(former.head.filter((line) => /^(title|expect)\b/.test(line)));
    const own = this.name === former.name ? first.replace(/\S+$/, name) : first;
    const narrated = new Set(former.steps.map(({ comment }) => comment.join("\n")).filter(Boolean));
    const from = this.#chapterOf(at);
    const steps = this.steps.map((step, index) =>
      (index >= from && narrated.has(step.comment.join("\n")) ? { ...step, comment: [] } : step));
    const mark = `# ${CHANGED_HERE}`;
    const isMarked = steps.slice(0, at).some(({ comment }) => comment.includes(mark));
    if (narrated.size && !isMarked && steps[at]?.comment.length === 0) steps[at] = { ...steps[at], comment: [mark] };
    return new Draft([own, ...rest.filter((line) => !stale.has(line))], steps);
  }

  // The first step that the other does not have, or has under another head.
  #firstChange(former) {
    const setting = ({ head }) => head.filter((line) => !isOfAuthor(line)).map(bare).join("\n");
    if (setting(this) !== setting(former)) return 0;
    const longest = Math.max(this.steps.length, former.steps.length);
    for (let at = 0; at < longest; at += 1) if (this.steps[at]?.command !== former.steps[at]?.command) return at;
    return null;
  }

  // Where the chapter begins that a step belongs to, unless the step begins one.
  #chapterOf(at) {
    const begins = (index) => index >= this.steps.length || this.steps[index].comment.length > 0;
    let from = at;
    // An added step has no comment: the chapter above is whole where the next comment follows directly.
    let next = at;
    while (next < this.steps.length && this.steps[next].added) next += 1;
    if (begins(next)) return at;
    while (from > 0 && !begins(from)) from -= 1;
    return from;
  }

  // Commands after the first `at` steps. The rest of the story goes on, or is left out.
  insert(at, commands, { keepRest = true } = {}) {
    const added = commands.map((command) => ({ command, comment: [], added: true }));
    const rest = keepRest ? this.steps.slice(at) : [];
    return new Draft(this.head, [...this.steps.slice(0, at), ...added, ...rest]);
  }

  remove(at) {
    const steps = this.steps.slice();
    const [gone] = steps.splice(at, 1);
    // A comment tells of the steps below it, too: it stays.
    if (gone.comment.length && steps[at] && !steps[at].comment.length) steps[at] = { ...steps[at], comment: gone.comment };
    return new Draft(this.head, steps);
  }

  endAfter(at) {
    return new Draft(this.head, this.steps.slice(0, at));
  }

  toString() {
    const lines = [...this.head, ""];
    for (const { command, comment } of this.steps) {
      if (comment.length) lines.push("", ...comment);
      lines.push(command);
    }
    return `${lines.join("\n")}\n`;
  }
}
