// What Kubernetes' YAML libraries make of a text.
//
//	go run . serve                     answers cases on standard input (see examples/differential.rs)
//	go run . vectors FILE > NEW        answers the "in" of each line of a file of vectors
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	yamlv2 "go.yaml.in/yaml/v2"
	kube "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Answer is what the libraries say of one text.
type Answer struct {
	// In is the text.
	In string `json:"in,omitempty"`
	// Value is the first document; JSON text is read as JSON, anything else by YAMLToJSON.
	Value json.RawMessage `json:"value,omitempty"`
	// Error is why there is none.
	Error string `json:"error,omitempty"`
	// Strict says whether keys that stand twice make an error.
	Strict string `json:"strict,omitempty"`
	// Stream has the documents up to the first error, as kubectl reads a file.
	Stream []json.RawMessage `json:"stream"`
	// StreamError is that error.
	StreamError string `json:"streamError,omitempty"`
	// Random says that two keys became one text, of which the library takes one by chance.
	Random bool `json:"random,omitempty"`
}

func guarded(read func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("PANIC: %v", fault)
		}
	}()
	return read()
}

func answer(text []byte) Answer {
	var found Answer
	err := guarded(func() error {
		if kube.IsJSONBuffer(text) {
			var value json.RawMessage
			if json.NewDecoder(bytes.NewReader(text)).Decode(&value) == nil {
				found.Value = compact(value)
				return nil
			}
		}
		value, err := yaml.YAMLToJSON(text)
		found.Value = value
		if err == nil {
			if _, err := yaml.YAMLToJSONStrict(text); err != nil {
				found.Strict = err.Error()
			}
		}
		return err
	})
	if err != nil {
		found.Error, found.Value = err.Error(), nil
	}
	found.Stream = []json.RawMessage{}
	err = guarded(func() error {
		decoder := kube.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			if value == nil {
				value = json.RawMessage("null")
			}
			found.Stream = append(found.Stream, compact(value))
		}
	})
	if err != nil {
		found.StreamError = err.Error()
	}
	_ = guarded(func() error {
		for _, document := range append(bytes.Split(text, []byte("\n---")), text) {
			var value interface{}
			if yamlv2.Unmarshal(document, &value) == nil {
				found.Random = found.Random || collides(value)
			}
		}
		return nil
	})
	return found
}

func compact(value []byte) json.RawMessage {
	var out bytes.Buffer
	if json.Compact(&out, value) != nil {
		return value
	}
	return out.Bytes()
}

// collides says whether two keys of a mapping become the same text.
func collides(value interface{}) bool {
	switch value := value.(type) {
	case map[interface{}]interface{}:
		seen := map[string]bool{}
		for key, item := range value {
			name := fmt.Sprint(key)
			if number, ok := key.(float64); ok {
				name = strconv.FormatFloat(number, 'g', -1, 32)
				switch name {
				case "NaN":
					name = ".nan"
				case "+Inf":
					name = ".inf"
				case "-Inf":
					name = "-.inf"
				}
			}
			if seen[name] || collides(item) {
				return true
			}
			seen[name] = true
		}
	case []interface{}:
		for _, item := range value {
			if collides(item) {
				return true
			}
		}
	}
	return false
}

func serve() error {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		var length uint32
		if err := binary.Read(in, binary.LittleEndian, &length); err != nil {
			return out.Flush()
		}
		if length == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
			continue
		}
		text := make([]byte, length-1)
		if _, err := io.ReadFull(in, text); err != nil {
			return err
		}
		line, err := json.Marshal(answer(text))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

func vectors(path string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, line := range bytes.Split(file, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var vector Answer
		if err := json.Unmarshal(line, &vector); err != nil {
			return err
		}
		found := answer([]byte(vector.In))
		found.In = vector.In
		if err := out.Encode(found); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	err := errors.New("usage: serve | vectors FILE")
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve()
	case len(os.Args) == 3 && os.Args[1] == "vectors":
		err = vectors(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
