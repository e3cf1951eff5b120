// What programs in the style of the CUDA samples call of helper_string.h, where that is not there: words of the command line, and files.
#pragma once
#include <strings.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif
#ifndef STRCASECMP
#define STRCASECMP strcasecmp
#define STRNCASECMP strncasecmp
#define STRCPY(to, bytes, from) strcpy(to, from)
#define FOPEN(file, name, mode) (file = fopen(name, mode))
#define FOPEN_FAIL(file) (file == nullptr)
#define FSCANF fscanf
#define SPRINTF sprintf
#endif

inline int stringRemoveDelimiter(char delimiter, const char* text) {
    int at = 0;
    while (text[at] == delimiter) ++at;
    return text[at] == 0 ? 0 : at;
}

inline int getFileExtension(char* name, char** extension) {
    char* last = strrchr(name, '.');
    *extension = last != nullptr ? last + 1 : name + strlen(name);
    return static_cast<int>(*extension - name);
}

// What stands behind --name or --name=; nullptr: there is no such word.
inline const char* wmmadiag_word(int argc, const char** argv, const char* name) {
    const auto length = strlen(name);
    const char* found = nullptr;
    for (int i = 1; i < argc; ++i) {
        const char* word = argv[i] + stringRemoveDelimiter('-', argv[i]);
        if (strncasecmp(word, name, length) != 0) continue;
        if (word[length] == '=') found = word + length + 1;
        else if (word[length] == 0 || (length != 0 && name[length - 1] == '=')) found = word + length;
    }
    return found;
}

inline bool checkCmdLineFlag(int argc, const char** argv, const char* name) { return wmmadiag_word(argc, argv, name) != nullptr; }
inline int getCmdLineArgumentInt(int argc, const char** argv, const char* name) {
    const char* word = wmmadiag_word(argc, argv, name);
    return word != nullptr ? atoi(word) : 0;
}
inline float getCmdLineArgumentFloat(int argc, const char** argv, const char* name) {
    const char* word = wmmadiag_word(argc, argv, name);
    return word != nullptr ? static_cast<float>(atof(word)) : 0;
}
inline bool getCmdLineArgumentString(int argc, const char** argv, const char* name, char** value) {
    const char* word = wmmadiag_word(argc, argv, name);
    *value = const_cast<char*>(word);
    return word != nullptr;
}
template <class T>
bool getCmdLineArgumentValue(int argc, const char** argv, const char* name, T* value) {
    const char* word = wmmadiag_word(argc, argv, name);
    if (word != nullptr) *value = static_cast<T>(atof(word));
    return word != nullptr;
}

// Where a file of data lies: here, or in the folders that samples keep it in; nullptr: nowhere. The caller frees it.
inline char* sdkFindFilePath(const char* name, const char* program) {
    std::string own = program != nullptr ? program : "";
    own = own.find('/') != std::string::npos ? own.substr(0, own.rfind('/') + 1) : "";
    for (const auto* folder : {"", "data/", "../data/", "../", "common/data/", "../common/data/"})
        for (const auto& root : {std::string(), own}) {
            const auto path = root + folder + name;
            if (FILE* file = fopen(path.c_str(), "rb")) {
                fclose(file);
                return strdup(path.c_str());
            }
        }
    return nullptr;
}
